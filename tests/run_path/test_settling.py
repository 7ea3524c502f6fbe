"""A job is settled when the result backend has taken its verdict, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from celery.app.task import Context, Task

from celery_lease import PermanentError
from tests.run_path.refusing import Refusing
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.run_path.conftest import Lab

#: Outcomes are handed out again when the lease of the failed hand-over has ended.
SHORT = {"lease_ttl": 0.3, "lease_heartbeat": 0.1}


@pytest.fixture
def refusing(lab: Lab) -> Refusing:
    return Refusing(lab.app, backend="memory://")


@pytest.fixture
def follower(lab: Lab) -> Any:
    @lab.task()
    def follower(*args: Any) -> None:
        lab.note(("followed", args[-1]))

    return follower


def test_a_success_that_was_not_taken_is_handed_out_again(
    lab: Lab, refusing: Refusing, follower: Any
) -> None:
    @lab.task(backend=refusing, **SHORT)
    def body() -> int:
        return lab.note("run")

    job, result = lab.outcome(body, link=follower.s("link"))
    wait_for(lambda: ("followed", "link") in lab.runs, what="follower")
    assert (job.state, job.settle_attempts, refusing.taken) == ("succeeded", 1, 1)
    assert (result.state, result.result) == ("SUCCESS", 1)
    assert sorted(map(str, lab.runs)) == ["('followed', 'link')", "run"]
    assert lab.kinds(job.id) == ["created", "claimed", "succeeded", "settled"]


@pytest.mark.parametrize("refusals", [1, 2])
def test_a_failure_that_was_not_taken_is_handed_out_again(
    lab: Lab, refusing: Refusing, follower: Any, refusals: int
) -> None:
    # The first refusal makes the worker's main process try at once, the second one waits.
    refusing.refusals = refusals

    @lab.task(backend=refusing, **SHORT)
    def body() -> NoReturn:
        lab.note("run")
        raise PermanentError("no")

    job, result = lab.outcome(body, link_error=follower.si("errback"))
    wait_for(lambda: ("followed", "errback") in lab.runs, what="errback")
    assert (job.state, job.settle_attempts) == ("dead", refusals - 1)
    assert (result.state, str(result.result)) == ("FAILURE", "no")
    assert lab.runs.count("run") == 1


def test_the_result_is_known_while_it_is_not_handed_out(lab: Lab, refusing: Refusing) -> None:
    refusing.refusals = 1000

    @lab.task(backend=refusing)
    def body() -> int:
        return 5

    result = body.delay()
    wait_for(lambda: lab.job(result).state == "succeeded", what="success")
    wait_for(lambda: not lab.unacknowledged(), what="acknowledged message")
    assert lab.job(result).settled_at is None
    assert (result.state, result.get(timeout=5, disable_sync_subtasks=False)) == ("SUCCESS", 5)


def test_handing_over_is_given_up_at_last(
    lab: Lab, refusing: Refusing, caplog: pytest.LogCaptureFixture
) -> None:
    refusing.refusals = 1000

    @lab.task(backend=refusing, lease_max_attempts=2, **SHORT)
    def body() -> int:
        return lab.note("run")

    job, _ = lab.outcome(body)
    assert (job.state, job.settle_attempts, lab.runs) == ("succeeded", 2, ["run"])
    assert lab.kinds(job.id)[-1] == "handover_failed"
    assert job.id in caplog.text


def test_a_retry_that_is_not_shown_happens_all_the_same(lab: Lab, refusing: Refusing) -> None:
    refusing.refusals = 0

    @lab.task(backend=refusing)
    def body() -> int:
        if lab.note("run") == 1:
            raise ValueError("again")
        return 1

    job, _ = lab.outcome(body)
    assert (job.state, job.attempts) == ("succeeded", 2)


def test_a_verdict_that_contradicts_the_record_is_dropped(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    @lab.task()
    def body() -> int:
        return 7

    job, result = lab.outcome(body)
    body.backend.mark_as_failure(job.id, ValueError("worker lost"), request=Context(id=job.id))
    body.backend.mark_as_revoked(job.id, "late", request=Context(id=job.id))
    assert (lab.app.backend.get_state(job.id), result.result) == ("SUCCESS", 7)
    assert lab.job(result).state == "succeeded"
    assert f"FAILURE for job {job.id} is dropped" in caplog.text


def test_a_hook_that_fails_after_the_hand_over_does_not_repeat_it(lab: Lab, follower: Any) -> None:
    def on_failure(*_args: Any) -> NoReturn:
        raise RuntimeError("hook")

    @lab.task(on_failure=on_failure)
    def body() -> NoReturn:
        raise PermanentError("no")

    @lab.task(base=Task)
    def plain() -> None:
        lab.note("plain")

    job, result = lab.outcome(body, link_error=[follower.si("errback"), plain.si()])
    wait_for(lambda: len(lab.runs) == 2, what="errbacks")
    assert (job.state, str(result.result)) == ("dead", "no")
    lab.deliver_again(job)
    assert len(lab.runs) == 2


def test_a_late_message_of_a_settled_job_changes_nothing(
    lab: Lab, refusing: Refusing, follower: Any
) -> None:
    refusing.refusals = 0

    @lab.task(backend=refusing)
    def body() -> int:
        return lab.note("run")

    job, _ = lab.outcome(body, link=follower.s("link"))
    wait_for(lambda: len(lab.runs) == 2, what="follower")
    lab.deliver_again(job)
    assert (len(lab.runs), refusing.taken) == (2, 1)
    assert lab.job(job.id) == job


def test_nobody_waits_so_nothing_is_handed_out(lab: Lab, refusing: Refusing) -> None:
    @lab.task(backend=refusing, ignore_result=True)
    def body() -> int:
        return lab.note("run")

    job, _ = lab.outcome(body)
    assert (job.settled_at, job.hands_over) == (job.completed_at, False)
    assert lab.runs == ["run"]


def test_an_ignored_result_with_a_follower_is_handed_out(lab: Lab, follower: Any) -> None:
    @lab.task(ignore_result=True)
    def body() -> int:
        return 3

    job, _ = lab.outcome(body, link=follower.s("link"))
    wait_for(lambda: lab.runs == [("followed", "link")], what="follower")
    assert job.hands_over
    assert "settled" in lab.kinds(job.id)
