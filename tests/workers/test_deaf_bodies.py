"""A body that no interrupt ends keeps its lease until five seconds after its time is up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_for
from tests.workers.test_pools import POOLS, all_pools, sibling

if TYPE_CHECKING:
    from tests.workers.conftest import Project

TTL, TIMEOUT, GRACE = 3, 1, 5


def _lines() -> dict[str, str]:
    """The line of each job, and the pool it runs on; a solo worker has time for one only."""
    deaf = {f"swallow-{pool}": pool for pool in POOLS}
    return {**deaf, "stuck-prefork": "prefork", "stuck-threads": "threads"}


def _submit(project: Project, line: str, pool: str) -> None:
    limits = {"queue": pool, "lease_attempt_timeout": TIMEOUT}
    if line.startswith("swallow"):
        project.app.swallow.apply_async((line,), **limits)
    else:
        project.app.stuck.apply_async((line, 60.0), **limits)


@pytest.mark.slow
def test_a_job_whose_body_hears_nothing_runs_elsewhere(redis_project: Project) -> None:
    project, lines = redis_project, _lines()
    with all_pools(project), sibling(project, slots=len(lines)):
        begun = time.monotonic()
        for line, pool in lines.items():
            _submit(project, line, pool)
        for line in lines:
            wait_for(lambda line=line: project.diary.count(line) == 2, 30, what=f"{line} again")
        assert TIMEOUT + GRACE < time.monotonic() - begun < TIMEOUT + GRACE + TTL + 4
        for line in lines:
            first, second = project.diary.entries(line)
            assert second.token > first.token
