"""A chord and an errback outlive a worker that dies at any step of a member's hand-over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import celery
import pytest
from celery import chord

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.support.valkey import PrivateValkey
    from tests.workers.conftest import Project

NAMES = ["a", "b", "c"]

# Older result backends count a member again when it is handed out again.
DEDUPLICATING = pytest.mark.skipif(
    celery.VERSION < (5, 7), reason="Celery counts a chord's members once since 5.7"
)


def _die(project: Project, broker: PrivateValkey) -> None:
    """Run until a worker has died, then let the broker lose its data."""
    with project.worker(concurrency=1) as doomed:
        doomed.wait_exit()
    with broker.client() as client:
        client.flushdb()


@DEDUPLICATING
@pytest.mark.slow
def test_a_chords_body_runs_once(dying_project: Project, private_valkey: PrivateValkey) -> None:
    app = dying_project.app
    body = chord([app.note.s(name) for name in NAMES], app.follow.s("body")).apply_async()
    _die(dying_project, private_valkey)
    with dying_project.worker():
        assert sorted(body.get(timeout=30)) == NAMES
        wait_for(lambda: dying_project.store.counts().due == 0, what="nothing due")
    assert [dying_project.diary.count(name) for name in [*NAMES, "body"]] == [1, 1, 1, 1]


@pytest.mark.slow
def test_a_leased_errback_runs_once(dying_project: Project, private_valkey: PrivateValkey) -> None:
    app = dying_project.app
    dead = app.give_up.apply_async(("job",), link_error=app.mourn.s())
    _die(dying_project, private_valkey)
    assert dying_project.job(dead.id).state == "dead"
    mourning = f"mourn {dead.id}"
    with dying_project.worker():
        wait_for(lambda: dying_project.diary.count(mourning), 30, what="errback")
        wait_for(lambda: dying_project.job(dead.id).settled_at, what="settled")
    assert [dying_project.diary.count(name) for name in ("job", mourning)] == [1, 1]
    assert dead.state == "FAILURE"
