"""A proxy around the result backend: a job is settled when its verdict was taken, nowhere else."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from celery import states

from celery_lease import keys
from celery_lease.errors import LeaseError
from celery_lease.job import Job, State
from celery_lease.lease import Grant
from celery_lease.results import recorded_exception
from celery_lease.runtime import runtime_of, runtimes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_lease.attempt import Attempt
    from celery_lease.stores.base import JobStore
    from celery_lease.task import LeasedTask

logger = logging.getLogger(__name__)

_VERDICTS = {
    states.SUCCESS: State.SUCCEEDED,
    states.FAILURE: State.DEAD,
    states.REVOKED: State.CANCELLED,
}


class SettlingBackend:
    """The result backend of one leased task.

    Args:
        backend: Celery's own; everything that is no verdict goes straight to it.
        task: The task.
    """

    def __init__(self, backend: Any, task: LeasedTask) -> None:
        self._backend = backend
        self._task = task

    @property
    def wrapped(self) -> Any:
        """Celery's own backend."""
        return self._backend

    def __getattr__(self, name: str) -> Any:
        """Whatever else a backend can do."""
        return getattr(self._backend, name)

    def mark_as_done(
        self, task_id: str, result: Any, request: Any = None, *rest: Any, **kw: Any
    ) -> None:
        """Hand a success out, then settle."""
        mark = self._backend.mark_as_done
        self._hand_over(
            states.SUCCESS, task_id, request, lambda _: mark(task_id, result, request, *rest, **kw)
        )

    def mark_as_failure(
        self,
        task_id: str,
        exc: Any,
        traceback: Any = None,
        request: Any = None,
        *rest: Any,
        **kw: Any,
    ) -> None:
        """Hand a failure out, then settle; dropped unless the job is dead."""
        mark = self._backend.mark_as_failure

        def hand_out(job: Job | None) -> None:
            mark(task_id, *_as_recorded(job, exc, traceback), request, *rest, **kw)

        self._hand_over(states.FAILURE, task_id, request, hand_out)

    def mark_as_revoked(
        self, task_id: str, reason: str = "", request: Any = None, *rest: Any, **kw: Any
    ) -> None:
        """Cancel the job if it has not ended, hand that out, then settle."""
        mark = self._backend.mark_as_revoked
        if attempt_of(request) is None:
            self._cancel(task_id, request)
        self._hand_over(
            states.REVOKED, task_id, request, lambda _: mark(task_id, reason, request, *rest, **kw)
        )

    def _cancel(self, task_id: str, request: Any) -> None:
        try:
            self._store.cancel(_submission(task_id, request), by="revoke")
        except LeaseError as down:
            logger.warning("revoked job %s is not cancelled: %s", task_id, down)

    @property
    def _store(self) -> JobStore:
        return runtime_of(self._task.app, self._task.lease_options).store

    def _hand_over(
        self, verdict: str, task_id: str, request: Any, hand_out: Callable[[Job | None], None]
    ) -> None:
        attempt = attempt_of(request)
        try:
            job = attempt.job if attempt else self._recorded(task_id, request)
            if why := _contradiction(verdict, job, attempt):
                logger.warning("%s for job %s is dropped, it %s", verdict, task_id, why)
                return
            hand_out(job)
            if attempt:
                attempt.handed_over = True
            if attempt and not attempt.is_settled:
                self._settle(attempt.lease.grant)
            elif job is not None and not attempt:
                self._settle(_grant(job, task_id, request))
        finally:
            if attempt:
                attempt.let_go()

    def _recorded(self, task_id: str, request: Any) -> Job | None:
        """The job of a verdict that the worker's main process gives without holding a lease."""
        return self._store.get(_submission(task_id, request))

    def _settle(self, grant: Grant) -> None:
        try:
            self._store.settle(grant)
        except LeaseError as down:
            logger.warning("job %s is not settled, it is handed over again: %s", grant.job_id, down)

    def mark_as_retry(self, *args: Any, **kw: Any) -> Any:
        """Show the retry; the store has it already, so a failure here is only logged."""
        try:
            return self._backend.mark_as_retry(*args, **kw)
        except Exception as refused:  # noqa: BLE001 - any backend's error means: not shown
            logger.warning("retry of %s is not shown in the result backend: %r", args[:1], refused)
            return None

    def process_cleanup(self) -> None:
        """Let go of leases whose outcome was not handed over; they end by themselves."""
        for runtime in runtimes_of(self._task.app):
            for holding in runtime.holdings.of_thread(threading.get_ident()):
                runtime.holdings.drop(holding)
        self._backend.process_cleanup()


def attempt_of(request: Any) -> Attempt | None:
    """The attempt behind a request, `None` outside the process that runs it."""
    return getattr(request, "_lease_attempt", None)


def _contradiction(verdict: str, job: Job | None, attempt: Attempt | None) -> str:
    if job is not None and job.state is not _VERDICTS[verdict]:
        return f"is {job.state}"
    # A hook of the task may fail after the hand-over, which Celery tells as another failure.
    return "has been told" if attempt and attempt.handed_over else ""


def _as_recorded(job: Job | None, exc: Any, traceback: Any) -> tuple[Any, Any]:
    """The failure to tell.

    When handing over fails Celery tells that error, which is not why the job is dead.
    """
    failure = job.failure if job else None
    told = getattr(exc, "exc_cls_name", type(exc).__name__)
    if failure is None or failure.name.rpartition(".")[2] == told:
        return exc, traceback
    return recorded_exception(failure), failure.traceback


def _submission(task_id: str, request: Any) -> str:
    nesting = getattr(request, "replaced_task_nesting", 0) or 0
    return keys.submission_id(task_id, nesting)


def _grant(job: Job, task_id: str, request: Any) -> Grant:
    """The proof of whoever held the job last; refused if somebody holds it by now."""
    return Grant(job.id, job.token, job.owner, 0.0, 0, _submission(task_id, request))
