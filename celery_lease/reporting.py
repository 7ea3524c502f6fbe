"""Writes an outcome to the store, and says to Celery what it means."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from celery.exceptions import Ignore, MaxRetriesExceededError, Reject, Retry
from celery.utils.serialization import get_pickleable_exception

from celery_lease import signals
from celery_lease.errors import (
    AttemptTimedOut,
    AttemptTimeout,
    LeaseLost,
    RecordedFailure,
    StaleToken,
    StoreUnavailable,
)
from celery_lease.job import Failure, Job, State
from celery_lease.outcome import (
    AskedDefer,
    AskedRetry,
    Exiting,
    Interrupted,
    Outcome,
    Raised,
    Returned,
    Skipped,
)
from celery_lease.policy import delay_after, failure_of, is_retryable
from celery_lease.results import storable

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_lease.attempt import Attempt
    from celery_lease.lease import Lease

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds between tries to report to a store that does not answer.
RETRY_REPORT = 0.5

#: Where a verb leaves the job when it was carried out under our token.
_WRITTEN = {
    "succeed": {State.SUCCEEDED},
    "amend": {State.SUCCEEDED},
    "settle": {State.DEAD},
    "fail": {State.RETRY_WAIT, State.DEAD},
    "release": {State.PENDING},
}


class Reporter:
    """Reports one attempt.

    Args:
        attempt: Whose outcome.
        job: The job as it was claimed.
        lease: Its lease; every write is under its token.
    """

    def __init__(self, attempt: Attempt, job: Job, lease: Lease) -> None:
        self._attempt = attempt
        self._claimed = job
        self._task = attempt.task
        self._store = attempt.runtime.store
        self._lease = lease
        self._grant = lease.grant

    def report(self, outcome: Outcome) -> Any:
        """The table "what a body does" of the documentation, row by row."""
        if self._lease.committed is not None:
            return self._after_commit(outcome)
        if isinstance(outcome, Returned):
            return self._returned(outcome.value)
        return self._left_by(outcome)

    def _returned(self, value: Any) -> Any:
        if self._attempt.asked is not None:
            # `retry(throw=False)`: the body went on, and ends as if it had been thrown.
            self._retry_asked(Retry())
        return self._succeeded(value)

    def _left_by(self, outcome: Outcome) -> NoReturn:
        match outcome:
            case AskedRetry(exc):
                self._retry_asked(exc)
            case Raised(exc):
                self._raised(exc)
            case AskedDefer(exc):
                self._handed_back(exc.seconds, exc.reason, Ignore(f"deferred: {exc.reason}"))
            case Skipped(exc):
                self._skipped(exc)
            case Interrupted(exc):
                self._interrupted(exc)
            case Exiting(exc):
                self._exiting(exc)
            case _:
                raise AssertionError(outcome)

    # -- success -------------------------------------------------------------

    def _succeeded(self, value: Any) -> Any:
        text, value = storable(self._task.name, self._grant.job_id, value)
        job = self._write("succeed", lambda: self._store.succeed(self._grant, text))
        self._ended(job)
        signals.job_succeeded.send(self._task, job=job)
        return value

    def _after_commit(self, outcome: Outcome) -> Any:
        """The job has succeeded, whatever the body did afterwards."""
        done: Any = self._lease.committed
        if not isinstance(outcome, Returned):
            exc = outcome.exc
            logger.error("task failed after its commit(), it stays succeeded", exc_info=exc)
        job = self._committed_job()
        self._ended(job)
        signals.job_succeeded.send(self._task, job=job)
        if isinstance(outcome, Exiting) and _ends_process():
            self._attempt.let_go()
            raise outcome.exc
        if done.result is not None or not isinstance(outcome, Returned):
            # As it was recorded: its repr where JSON cannot hold it.
            return storable(self._task.name, self._grant.job_id, done.result)[1]
        return self._amended(outcome.value)

    def _committed_job(self) -> Job:
        """The job as `commit()` left it; reading it again would tell nothing more."""
        job = self._claimed
        settled_at = None if job.hands_over else job.updated_at
        return replace(job, state=State.SUCCEEDED, settled_at=settled_at)

    def _amended(self, value: Any) -> Any:
        text, value = storable(self._task.name, self._grant.job_id, value)
        if value is not None and text is not None:
            self._write("amend", lambda: self._store.amend(self._grant, text))
        return value

    # -- failure -------------------------------------------------------------

    def _raised(self, exc: BaseException) -> NoReturn:
        if isinstance(exc, StaleToken):
            self._refused("commit", exc)
        if exc is self._attempt.gave_up:
            self._give_up(exc, failure_of(exc, retryable=False))
        retryable = is_retryable(self._attempt.options, exc)
        failure = failure_of(exc, retryable=retryable)
        if not retryable or self._is_last:
            self._give_up(exc, failure)
        delay = delay_after(self._attempt.options, exc, self._lease.attempt)
        self._retry_in(delay, exc, failure)

    @property
    def _is_last(self) -> bool:
        return self._lease.attempt >= self._lease.max_attempts

    def _retry_asked(self, retry: Retry) -> NoReturn:
        asked, exc = self._attempt.asked, retry.exc or retry
        if self._is_last:
            spent = MaxRetriesExceededError(f"no attempts are left: {exc}")
            last = spent if isinstance(exc, Retry) else exc
            self._give_up(last, failure_of(last, retryable=True))
        failure = failure_of(exc, retryable=True)
        delay = asked.delay if asked else None
        if delay is None:
            delay = delay_after(self._attempt.options, exc, self._lease.attempt)
        self._retry_in(delay, exc, failure)

    def _retry_in(self, delay: float, exc: BaseException, failure: Failure) -> NoReturn:
        eager = bool(self._attempt.request.is_eager)
        wait = 0.0 if eager else delay
        asked = self._attempt.asked
        replacement = asked.replacement if asked else None
        job = self._write("fail", lambda: self._store.fail(self._grant, failure, wait, replacement))
        self._attempt.let_go()
        signals.job_retrying.send(self._task, job=job, failure=failure, retry_in=wait)
        raise self._celery_retry(exc, wait, eager=eager) from exc

    def _celery_retry(self, exc: BaseException, wait: float, *, eager: bool) -> Retry:
        own = exc if isinstance(exc, Exception) else AttemptTimeout()
        sig = self._task.signature_from_request(self._attempt.request) if eager else None
        return Retry(exc=get_pickleable_exception(own), when=wait, is_eager=eager, sig=sig)

    def _give_up(self, exc: BaseException, failure: Failure) -> NoReturn:
        self._dead(failure)
        raise exc

    def _dead(self, failure: Failure) -> Job:
        job = self._write("fail", lambda: self._store.fail(self._grant, failure, None))
        self._ended(job)
        signals.job_dead.send(self._task, job=job, failure=failure)
        return job

    # -- neither -------------------------------------------------------------

    def _skipped(self, exc: Ignore | Reject) -> NoReturn:
        if isinstance(exc, Reject) and exc.requeue:
            self._handed_back(0.0, "rejected", exc)
        if isinstance(exc, Reject):
            self._dead(Failure("Reject", str(exc.reason), "REJECTED", retryable=False))
            # Celery hands nothing out after a Reject, so there is nothing to settle later.
            self._write("settle", lambda: self._store.settle(self._grant))
        else:
            reason = "replaced" if self._attempt.replaced else "ignored"
            job = self._write(
                "succeed",
                lambda: self._store.succeed(self._grant, None, settled=True, reason=reason),
            )
            signals.job_succeeded.send(self._task, job=job)
        self._attempt.let_go()
        raise exc

    def _interrupted(self, exc: BaseException) -> NoReturn:
        if isinstance(exc, LeaseLost):
            self._attempt.let_go()
            raise Ignore("the lease was lost; its next holder reports")
        if isinstance(exc, AttemptTimedOut):
            self._raised(AttemptTimeout())
        self._handed_back(0.0, "worker stopping", Ignore("worker stopping"))

    def _exiting(self, exc: BaseException) -> NoReturn:
        """The process goes down with the body: counted, so that it cannot loop for ever."""
        failure = failure_of(exc, retryable=True)
        delay = delay_after(self._attempt.options, exc, self._lease.attempt)
        if not _ends_process():
            self._exited_thread(failure, delay)
        wait = None if self._is_last else delay
        self._write("fail", lambda: self._store.fail(self._grant, failure, wait))
        self._attempt.let_go()
        raise exc

    def _exited_thread(self, failure: Failure, delay: float) -> NoReturn:
        # Past the tracer, Celery's thread pool drops it and never acknowledges the message.
        told = RecordedFailure(f"{failure.name}: {failure.message}", failure.name, failure.code)
        if self._is_last:
            self._give_up(told, failure)
        self._retry_in(delay, told, failure)

    def _handed_back(self, delay: float, reason: str, then: Exception) -> NoReturn:
        job = self._write("release", lambda: self._store.release(self._grant, delay, reason))
        self._attempt.let_go()
        signals.lease_released.send(self._task, job=job, reason=reason)
        raise then

    # -- writing -------------------------------------------------------------

    def _ended(self, job: Job) -> None:
        self._attempt.job = job
        if self._attempt.is_settled:
            self._attempt.let_go()

    def _write(self, what: str, verb: Callable[[], T]) -> T:
        """Write while the lease is trusted, through outages of the store.

        A write whose answer was lost is refused when it is tried again; the
        row then tells whether it was ours.
        """
        unanswered = False
        while True:
            try:
                return verb()
            except StaleToken as refusal:
                if unanswered and self._is_written(what):
                    return cast("T", self._store.get(self._grant.job_id))
                self._refused(what, refusal)
            except StoreUnavailable as down:
                unanswered = True
                self._wait_for_store(what, down)

    def _wait_for_store(self, what: str, down: StoreUnavailable) -> None:
        if self._lease.remaining() <= 0:
            self._attempt.let_go()
            logger.error("%s of job %s was not recorded: %s", what, self._grant.job_id, down)
            raise Ignore(f"{what} was not recorded, the job will run again") from down
        logger.warning("store is not available for %s, trying again: %s", what, down)
        time.sleep(RETRY_REPORT)

    def _is_written(self, what: str) -> bool:
        job = self._store.get(self._grant.job_id)
        if job is None or job.token != self._grant.token or job.state not in _WRITTEN[what]:
            return False
        # Expiry leaves a dead job without an owner; a dead job of ours keeps it.
        return job.state is not State.DEAD or job.owner == self._grant.owner

    def _refused(self, what: str, refusal: StaleToken) -> NoReturn:
        self._attempt.let_go()
        logger.warning("%s", refusal)
        signals.stale_write_refused.send(self._task, grant=self._grant, what=what)
        raise Ignore(str(refusal)) from refusal


def _ends_process() -> bool:
    """Whether an exit raised here takes the process down, as in a pool's child."""
    return threading.current_thread() is threading.main_thread()
