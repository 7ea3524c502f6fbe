"""A worker that kills itself, pool and all, once, at a named step of handing an outcome over.

DIE_AT names the step: `recorded` (in the store, nothing handed over), `dispatched` (followers are
sent, no result stored) or `stored` (all handed over, not settled).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from celery.backends.redis import RedisBackend

from celery_lease import signals

STEPS = ("recorded", "dispatched", "stored")


def die_at(step: str) -> None:
    """SIGKILL for the whole process group, if this is the step and it is the first time."""
    if os.environ.get("DIE_AT") != step:
        return
    try:
        (Path(os.environ["DIARY"]) / "died").touch(exist_ok=False)
    except FileExistsError:
        return
    os.killpg(os.getpgrp(), signal.SIGKILL)


class DyingBackend(RedisBackend):
    """Redis results, around which a worker can die."""

    def mark_as_done(self, *args: Any, **options: Any) -> None:
        die_at("dispatched")
        super().mark_as_done(*args, **options)
        die_at("stored")

    def mark_as_failure(self, *args: Any, **options: Any) -> None:
        die_at("dispatched")
        super().mark_as_failure(*args, **options)
        die_at("stored")


@signals.job_dead.connect
@signals.job_succeeded.connect
def _recorded(**_: Any) -> None:
    die_at("recorded")
