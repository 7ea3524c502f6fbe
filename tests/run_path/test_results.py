"""What a caller's result tells, also where the result backend knows nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from celery_lease import PermanentError, current_lease
from celery_lease.errors import RecordedFailure
from celery_lease.results import LeasedResult
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.run_path.conftest import Lab


class TheirError(Exception):
    """A project's own."""


def _get(result: LeasedResult) -> Any:
    return result.get(timeout=5, disable_sync_subtasks=False)


def test_a_result_knows_its_job(lab: Lab) -> None:
    @lab.task()
    def body() -> int:
        return 1

    result = body.apply_async(countdown=600)
    assert isinstance(result, LeasedResult)
    assert (result.job.id, result.job.state, result.duplicate) == (result.id, "pending", False)
    assert body.AsyncResult(result.id).job.id == result.id


def test_the_store_answers_where_the_backend_knows_nothing(lab: Lab) -> None:
    @lab.task()
    def body(word: str) -> str:
        if word == "bad":
            raise PermanentError(word)
        return word

    good, bad = (lab.outcome(body, word)[1] for word in ("good", "bad"))
    for result in (good, bad):
        lab.app.backend.forget(result.id)
    assert (good.state, _get(good)) == ("SUCCESS", "good")
    assert (bad.state, str(bad.result)) == ("FAILURE", "bad")
    assert "PermanentError" in bad.traceback
    with pytest.raises(PermanentError):
        _get(bad)


def test_the_store_knows_running_and_retrying(lab: Lab) -> None:
    @lab.task(lease_backoff=[600])
    def body() -> NoReturn:
        wait_for(lambda: lab.runs, what="go")
        raise ValueError("no luck")

    result = body.delay()
    wait_for(lambda: result.state == "STARTED", what="started")
    lab.note("go")
    wait_for(lambda: result.state == "RETRY", what="retry")


def test_an_exception_of_the_project_comes_back_by_name_only(lab: Lab) -> None:
    @lab.task(lease_max_attempts=1)
    def body() -> NoReturn:
        raise TheirError("oops")

    _, result = lab.outcome(body)
    meta = result._meta_of_job()
    assert isinstance(meta["result"], RecordedFailure)
    assert (meta["result"].name, str(meta["result"])) == ("TheirError", "TheirError: oops")


def test_ignored_results_are_settled_at_once(lab: Lab) -> None:
    @lab.task(ignore_result=True)
    def body() -> int:
        return 1

    job, result = lab.outcome(body)
    assert job.settled_at == job.completed_at
    assert "settled" not in lab.kinds(job.id)
    assert lab.app.backend.get_state(result.id) == "PENDING"


def test_results_ignored_per_call_are_settled_at_once(lab: Lab) -> None:
    @lab.task()
    def body() -> int:
        return 1

    job, _ = lab.outcome(body, ignore_result=True)
    assert "settled" not in lab.kinds(job.id)


def test_children_are_known_to_their_parent(lab: Lab) -> None:
    @lab.task()
    def child() -> None: ...

    @lab.task()
    def parent() -> str:
        return str(child.delay().id)

    _, result = lab.outcome(parent)
    assert [entry.id for entry in result.children] == [_get(result)]


def test_a_result_of_started_never_hides_a_success(lab: Lab) -> None:
    @lab.task(track_started=False)
    def body() -> int:
        return current_lease().attempt

    _, result = lab.outcome(body)
    assert not body.track_started
    assert _get(result) == 1


def test_a_failure_is_raised_to_the_one_who_waits(lab: Lab) -> None:
    @lab.task(lease_max_attempts=1)
    def body() -> NoReturn:
        raise ValueError("no luck")

    _, result = lab.outcome(body)
    with pytest.raises(ValueError, match="no luck"):
        _get(result)
