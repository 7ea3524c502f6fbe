"""Without a result backend the job store tells what became of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_lease import PermanentError
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.workers.conftest import Project


def test_the_store_tells_state_and_result(rabbit_project: Project) -> None:
    with rabbit_project.worker():
        good = rabbit_project.app.note.delay("good")
        bad = rabbit_project.app.give_up.delay("bad")
        rabbit_project.wait_for_state(good.id, "succeeded")
        rabbit_project.wait_for_state(bad.id, "dead")
    assert (good.state, good.result, good.get()) == ("SUCCESS", "good", "good")
    assert (bad.state, bad.traceback is not None) == ("FAILURE", True)
    with pytest.raises(PermanentError, match="NO_USE"):
        bad.get()


def test_nobody_waits_for_it_so_it_is_settled_at_once(rabbit_project: Project) -> None:
    with rabbit_project.worker():
        result = rabbit_project.app.note.delay("job")
        job = rabbit_project.wait_for_state(result.id, "succeeded")
    assert job.settled_at is not None
    assert "settled" not in rabbit_project.kinds(result.id)


def test_with_followers_it_is_settled_when_they_are_sent(rabbit_project: Project) -> None:
    app = rabbit_project.app
    with rabbit_project.worker():
        result = app.note.apply_async(("job",), link=app.follow.s("follower"))
        wait_for(lambda: rabbit_project.diary.count("follower"), what="follower")
        wait_for(lambda: rabbit_project.job(result.id).settled_at, what="settled")
    assert "settled" in rabbit_project.kinds(result.id)
