"""What a body does, and what becomes of its job, its Celery state and its message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from celery.exceptions import Ignore, Reject

from celery_lease import PermanentError, RetryableError, current_lease
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from celery_lease.results import LeasedResult
    from tests.run_path.conftest import Lab

RETRIED = ["claimed", "retry_scheduled"]


def test_a_body_that_returns(lab: Lab) -> None:
    @lab.task()
    def body() -> int:
        return 3

    job, result = lab.outcome(body)
    assert (job.state, job.result) == ("succeeded", "3")
    assert (result.state, result.result) == ("SUCCESS", 3)
    assert lab.kinds(result) == ["created", "claimed", "succeeded", "settled"]


def test_a_body_that_raises_is_tried_again_until_its_attempts_are_used_up(lab: Lab) -> None:
    @lab.task()
    def body() -> NoReturn:
        lab.note(current_lease().attempt)
        raise ValueError("no luck")

    job, result = lab.outcome(body)
    assert lab.runs == [1, 2, 3]
    assert (job.state, result.state) == ("dead", "FAILURE")
    assert isinstance(result.result, ValueError)
    assert lab.kinds(result) == ["created", *RETRIED, *RETRIED, "claimed", "dead", "settled"]


def test_between_attempts_celery_shows_a_retry(lab: Lab) -> None:
    @lab.task(lease_backoff=[600])
    def body() -> NoReturn:
        raise ValueError("no luck")

    result = body.delay()
    wait_for(lambda: lab.job(result).state == "retry_wait", what="retry")
    wait_for(lambda: lab.app.backend.get_state(result.id) == "RETRY", what="shown")
    wait_for(lambda: not lab.unacknowledged(), what="acknowledged")
    assert 590 < lab.job(result).available_at - lab.job(result).updated_at < 610


def test_retry_after_lengthens_the_wait(lab: Lab) -> None:
    @lab.task(lease_backoff=[5])
    def body(seconds: float) -> NoReturn:
        raise RetryableError(retry_after=seconds)

    longer, shorter = body.delay(300), body.delay(1)
    for result, wait in ((longer, 300), (shorter, 5)):
        wait_for(lambda result=result: lab.job(result).state == "retry_wait", what="retry")
        job = lab.job(result)
        assert wait - 1 < job.available_at - job.updated_at < wait + 1


def test_a_permanent_error_is_not_retried(lab: Lab) -> None:
    @lab.task()
    def body() -> NoReturn:
        raise PermanentError("gone for good", code="GONE")

    job, result = lab.outcome(body)
    assert job.failure is not None
    assert (job.state, job.attempts, result.state) == ("dead", 1, "FAILURE")
    assert (job.failure.code, job.failure.retryable) == ("GONE", False)


def test_a_failure_is_kept_as_text(lab: Lab) -> None:
    @lab.task(lease_max_attempts=1)
    def body() -> NoReturn:
        raise KeyError("missing")

    job, _ = lab.outcome(body)
    failure = job.failure
    assert failure is not None
    assert (failure.name, failure.message, failure.code) == ("KeyError", "'missing'", "KeyError")
    assert failure.retryable
    assert "in body" in failure.traceback


@pytest.mark.parametrize("options", [{"lease_give_up_on": (LookupError,)}, {"lease_retry_on": ()}])
def test_the_tasks_policy_gives_up(lab: Lab, options: dict[str, Any]) -> None:
    @lab.task(**options)
    def body() -> NoReturn:
        raise KeyError("missing")

    job, result = lab.outcome(body)
    assert (job.state, job.attempts, result.state) == ("dead", 1, "FAILURE")


class Judged(Exception):
    """Says itself whether it is worth another try."""

    def __init__(self, *, retryable: bool, code: str) -> None:
        super().__init__(code)
        self.retryable = retryable
        self.code = code


def test_an_exceptions_own_word_comes_before_the_policy(lab: Lab) -> None:
    @lab.task(lease_give_up_on=(Judged,))
    def body(*, retryable: bool) -> NoReturn:
        raise Judged(retryable=retryable, code="J1")

    once, _ = lab.outcome(body, kwargs={"retryable": False})
    often, _ = lab.outcome(body, kwargs={"retryable": True})
    assert (once.attempts, often.attempts) == (1, 3)
    assert once.failure is not None
    assert (once.failure.name, once.failure.code) == ("Judged", "J1")


class Hostile(Exception):
    """Cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text for you")

    __repr__ = __str__


class Unpicklable(Exception):
    """Cannot be carried between processes."""

    def __init__(self) -> None:
        super().__init__("unpicklable")
        self.held = lambda: None


@pytest.mark.parametrize("make", [lambda: Judged(retryable=False, code="J2"), Hostile, Unpicklable])
def test_an_exception_that_breaks_its_reader_ends_the_job_and_nothing_else(
    lab: Lab, make: Any
) -> None:
    @lab.task(lease_max_attempts=2)
    def bad() -> NoReturn:
        raise make()

    @lab.task()
    def good() -> int:
        return 1

    job, result = lab.outcome(bad)
    assert job.failure is not None
    assert (job.state, result.state) == ("dead", "FAILURE")
    assert job.failure.name == type(make()).__name__
    assert lab.outcome(good)[0].state == "succeeded"


def test_defer_hands_the_job_back_uncounted(lab: Lab) -> None:
    @lab.task()
    def body() -> int:
        if lab.note("run") < 4:
            current_lease().defer(0.01, "not yet")
        return current_lease().attempt

    job, _ = lab.outcome(body)
    assert (job.state, job.attempts, job.result) == ("succeeded", 1, "1")
    assert lab.kinds(job.id).count("deferred") == 3


def test_ignore_ends_the_job_without_a_result(lab: Lab) -> None:
    @lab.task()
    def body() -> NoReturn:
        raise Ignore("not worth it")

    job, result = lab.outcome(body)
    assert (job.state, job.result) == ("succeeded", None)
    assert lab.app.backend.get_state(result.id) == "PENDING"
    [event] = [e for e in lab.store.events(job.id) if e.kind == "succeeded"]
    assert event.details["reason"] == "ignored"


def test_reject_is_dead(lab: Lab) -> None:
    @lab.task()
    def body() -> NoReturn:
        raise Reject("no good", requeue=False)

    job, _ = lab.outcome(body)
    assert (job.state, job.attempts) == ("dead", 1)
    assert job.failure is not None
    assert (job.failure.code, job.failure.message) == ("REJECTED", "no good")


def test_reject_with_requeue_hands_back_uncounted(lab: Lab) -> None:
    @lab.task()
    def body() -> int:
        if lab.note("run") == 1:
            raise Reject("again", requeue=True)
        return 1

    job, _ = lab.outcome(body)
    assert (job.state, job.attempts, len(lab.runs)) == ("succeeded", 1, 2)
    assert "released" in lab.kinds(job.id)


@pytest.mark.parametrize("exit_", [SystemExit, KeyboardInterrupt])
def test_an_exit_in_a_thread_is_a_counted_attempt_like_any_other(lab: Lab, exit_: Any) -> None:
    @lab.task()
    def body() -> NoReturn:
        raise exit_(3)

    job, result = lab.outcome(body)
    assert job.failure is not None
    assert (job.state, job.attempts, job.failure.name) == ("dead", 3, exit_.__name__)
    assert result.state == "FAILURE"


def test_a_cancelled_job_does_not_run(lab: Lab) -> None:
    @lab.task()
    def body() -> None:
        lab.note("run")

    result = body.apply_async(countdown=600)
    assert lab.store.cancel(result.id, by="a test")
    job = lab.ended(result)
    assert (job.state, result.state, lab.runs) == ("cancelled", "REVOKED", [])


def test_a_job_that_has_expired_does_not_run_and_fails_its_chain(lab: Lab) -> None:
    @lab.task()
    def body(_given: Any = None) -> None:
        lab.note("run")

    chain = body.s() | body.s()
    last = chain.apply_async(expires=-1)
    first: LeasedResult = last.parent
    job = lab.ended(first)
    assert (job.state, lab.app.backend.get_state(first.id), lab.runs) == (
        "cancelled",
        "REVOKED",
        [],
    )
    assert lab.app.backend.get_state(last.id) == "FAILURE"


def test_a_running_jobs_expiry_no_longer_matters(lab: Lab) -> None:
    @lab.task()
    def body() -> int:
        return 5

    job, result = lab.outcome(body, expires=60)
    assert (job.state, result.result) == ("succeeded", 5)


def test_replace_ends_the_job_and_the_new_one_gives_the_result(lab: Lab) -> None:
    @lab.task()
    def second() -> str:
        return "from the second"

    @lab.task(bind=True)
    def first(self: Any) -> NoReturn:
        raise self.replace(second.s())

    job, result = lab.outcome(first)
    new = lab.ended(f"{result.id}~1")
    assert (job.state, new.state, new.task) == ("succeeded", "succeeded", second.name)
    assert lab.kinds(job.id)[-1] in {"replaced", "settled"}
    assert "replaced" in lab.kinds(job.id)
    assert result.get(timeout=5, disable_sync_subtasks=False) == "from the second"


def test_no_replacement_without_its_job(lab: Lab) -> None:
    @lab.task()
    def second(_value: Any) -> None: ...

    @lab.task(bind=True, lease_max_attempts=1)
    def first(self: Any) -> NoReturn:
        raise self.replace(second.s(object()))

    job, _ = lab.outcome(first)
    assert job.state == "dead"
    assert lab.store.get(f"{job.id}~1") is None


def test_a_result_that_json_cannot_hold_is_kept_as_its_repr(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    @lab.task()
    def body() -> Odd:
        return Odd()

    job, result = lab.outcome(body)
    assert (job.state, json.loads(job.result or "")) == ("succeeded", "<odd>")
    assert result.get(timeout=5, disable_sync_subtasks=False) == "<odd>"
    assert "its repr is" in caplog.text
