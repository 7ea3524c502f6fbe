"""`self.retry()` in all its forms, and `autoretry_for`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from celery.exceptions import MaxRetriesExceededError, Retry

from celery_lease import RetryableError, current_lease
from celery_lease.message import Message
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from celery_lease.job import Job
    from tests.run_path.conftest import Lab


def _in_retry(lab: Lab, result: Any) -> Job:
    wait_for(lambda: lab.job(result).state == "retry_wait", what="retry")
    return lab.job(result)


def test_a_countdown_is_the_jobs_next_time(lab: Lab) -> None:
    @lab.task(bind=True)
    def body(self: Any) -> NoReturn:
        raise self.retry(countdown=600, exc=ValueError("later"))

    result = body.delay()
    job = _in_retry(lab, result)
    assert 590 < job.available_at - job.updated_at < 610
    assert job.failure is not None
    assert (job.failure.name, job.failure.message) == ("ValueError", "later")
    wait_for(lambda: lab.app.backend.get_state(result.id) == "RETRY", what="shown")


def test_an_eta_is_the_jobs_next_time(lab: Lab) -> None:
    @lab.task(bind=True)
    def body(self: Any) -> NoReturn:
        raise self.retry(eta=datetime.now(UTC) + timedelta(seconds=600))

    job = _in_retry(lab, body.delay())
    assert 590 < job.available_at - job.updated_at < 610


def test_the_tasks_own_delay_is_used_when_it_has_one(lab: Lab) -> None:
    @lab.task(bind=True, default_retry_delay=300)
    def body(self: Any) -> NoReturn:
        raise self.retry()

    job = _in_retry(lab, body.delay())
    assert 290 < job.available_at - job.updated_at < 310


def test_other_arguments_are_used_from_then_on(lab: Lab) -> None:
    @lab.task(bind=True)
    def body(self: Any, number: int, *, word: str = "a") -> str:
        lab.note((number, word))
        if number < 3:
            self.retry(args=[number + 1], kwargs={"word": word + "b"}, countdown=0)
        return word

    job, _ = lab.outcome(body, 1)
    assert lab.runs == [(1, "a"), (2, "ab"), (3, "abb")]
    assert (job.state, job.result, job.attempts) == ("succeeded", '"abb"', 3)


def test_without_throw_the_body_goes_on_and_is_retried(lab: Lab) -> None:
    @lab.task(bind=True)
    def body(self: Any) -> str:
        if current_lease().attempt == 1:
            self.retry(countdown=0, throw=False)
            lab.note("went on")
        return "done"

    job, _ = lab.outcome(body)
    assert (job.state, job.attempts, lab.runs) == ("succeeded", 2, ["went on"])


def test_max_retries_gives_up_before_the_attempts_are_used_up(lab: Lab) -> None:
    @lab.task(bind=True)
    def body(self: Any) -> NoReturn:
        raise self.retry(countdown=0, max_retries=1)

    job, result = lab.outcome(body)
    assert job.failure is not None
    assert (job.state, job.attempts) == ("dead", 2)
    assert job.failure.name == "MaxRetriesExceededError"
    assert isinstance(result.result, MaxRetriesExceededError)


@pytest.mark.parametrize("options", [{"max_retries": 0}, {"lease_max_attempts": 1}])
def test_the_exception_that_leaves_retry_ends_the_job(lab: Lab, options: Any) -> None:
    @lab.task(bind=True, **options)
    def body(self: Any) -> NoReturn:
        raise self.retry(exc=KeyError("the cause"))

    job, result = lab.outcome(body)
    assert job.failure is not None
    assert (job.state, job.attempts, job.failure.name) == ("dead", 1, "KeyError")
    assert isinstance(result.result, KeyError)


def test_an_exhausted_retry_that_the_body_survives_is_a_success(lab: Lab) -> None:
    @lab.task(bind=True, max_retries=0)
    def body(self: Any) -> str:
        try:
            self.retry()
        except MaxRetriesExceededError:
            return "gave up gracefully"

    job, _ = lab.outcome(body)
    assert (job.state, job.result) == ("succeeded", '"gave up gracefully"')


def test_autoretry_for(lab: Lab) -> None:
    @lab.task(autoretry_for=(ValueError,), retry_backoff=False, default_retry_delay=0)
    def body() -> str:
        if lab.note("run") < 3:
            raise ValueError("again")
        return "done"

    job, _ = lab.outcome(body)
    assert (job.state, job.attempts) == ("succeeded", 3)


def test_the_request_counts_retries_as_celery_does(lab: Lab) -> None:
    @lab.task(bind=True)
    def body(self: Any) -> None:
        lab.note(self.request.retries)
        if len(lab.runs) < 3:
            raise ValueError("again")

    lab.outcome(body)
    assert lab.runs == [0, 1, 2]


def test_a_retry_raised_by_hand_ends_as_celerys_own_would(lab: Lab) -> None:
    @lab.task()
    def body() -> NoReturn:
        raise Retry("by hand")

    job, result = lab.outcome(body)
    assert job.failure is not None
    assert (job.state, job.attempts) == ("dead", 3)
    assert job.failure.name == "MaxRetriesExceededError"
    assert isinstance(result.result, MaxRetriesExceededError)


def test_another_queue_and_priority_are_used_from_then_on(lab: Lab) -> None:
    @lab.task(bind=True)
    def follower(_self: Any, _result: int) -> None:
        lab.note("followed")

    @lab.task(bind=True)
    def body(self: Any, n: int) -> int:
        if lab.note(self.request.delivery_info.get("priority")) == 1:
            queue = lab.app.conf.task_default_queue
            raise self.retry(countdown=0, priority=7, queue=queue, headers={"own": "x"})
        lab.note(self.request.own)
        return n

    job, _ = lab.outcome(body, 4, link=follower.s(), compression="gzip")
    wait_for(lambda: "followed" in lab.runs, what="follower")
    assert (job.result, lab.runs) == ("4", [0, 7, "x", "followed"])
    again = body.apply_async((4,), countdown=600)
    assert again.job.fingerprint == job.fingerprint


def test_a_retry_to_another_queue_leaves_for_it(lab: Lab) -> None:
    @lab.task(bind=True, lease_backoff=[600])
    def body(self: Any) -> NoReturn:
        raise self.retry(countdown=600, queue="elsewhere")

    job = _in_retry(lab, body.delay())
    assert Message.loads(job.message).routing_key == "elsewhere"


@pytest.mark.parametrize("seconds", [float("inf"), float("nan")])
def test_a_time_that_never_comes_is_the_bodys_error(lab: Lab, seconds: float) -> None:
    @lab.task(bind=True)
    def asking(self: Any) -> NoReturn:
        raise self.retry(countdown=seconds)

    @lab.task()
    def told() -> NoReturn:
        raise RetryableError(retry_after=seconds)

    for task in (asking, told):
        job, _ = lab.outcome(task)
        assert (job.state, job.attempts) == ("dead", 3)
