"""Results: as text in a store, and as Celery's `AsyncResult` that asks it."""

from __future__ import annotations

import builtins
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from celery import states
from celery.backends.base import DisabledBackend
from celery.exceptions import TimeoutError  # noqa: A004 - what Celery raises
from celery.result import AsyncResult, assert_will_not_block
from celery.utils.saferepr import saferepr

from celery_lease import errors
from celery_lease.errors import MessageNotSerialisable, RecordedFailure, StoreUnavailable
from celery_lease.job import Failure, Job, State
from celery_lease.message import from_text, to_text

if TYPE_CHECKING:
    from celery_lease.stores.base import JobStore

logger = logging.getLogger(__name__)

_CELERY_STATES = {
    State.RUNNING: states.STARTED,
    State.RETRY_WAIT: states.RETRY,
    State.SUCCEEDED: states.SUCCESS,
    State.DEAD: states.FAILURE,
    State.CANCELLED: states.REVOKED,
}


def decoded(text: str | None) -> Any:
    """A recorded result."""
    return None if text is None else from_text(text)


def storable(task: str, job_id: str, value: Any) -> tuple[str | None, Any]:
    """A result as text and as what to hand out; its repr where JSON cannot hold it."""
    if value is None:
        return None, None
    try:
        return to_text(value), value
    except MessageNotSerialisable as refused:
        text = saferepr(value)
        logger.warning(
            "result of %s (job %s) cannot be stored as JSON, its repr is: %s", task, job_id, refused
        )
        return to_text(text), text


def recorded_exception(failure: Failure | None) -> Exception:
    """The exception a recorded failure stands for: one of Python's own or ours by its name.

    Anything else is a `RecordedFailure`: importing a class by a stored name would run
    code that the reader of a result never asked for.
    """
    if failure is None:
        return RecordedFailure()
    known = getattr(builtins, failure.name, None) or getattr(errors, failure.name, None)
    if isinstance(known, type) and issubclass(known, Exception):
        try:
            return known(failure.message)
        except TypeError:
            logger.debug("%s takes more than a message", failure.name)
    return RecordedFailure(f"{failure.name}: {failure.message}", failure.name, failure.code)


class LeasedResult(AsyncResult):
    """Celery's result that also knows its job.

    It asks the job store whenever the result backend has nothing final to say.

    Attributes:
        duplicate: Whether the submission joined an existing job.
    """

    duplicate = False
    _store: JobStore | None = None
    _submission = ""

    def attach(self, store: JobStore, submission: str, *, duplicate: bool) -> None:
        """Tell the result where its job is."""
        self._store = store
        self._submission = submission
        self.duplicate = duplicate

    @property
    def job(self) -> Job | None:
        """The job as it is now; shared by all submissions under one key."""
        return self._store.get(self._submission or self.id) if self._store else None

    def get(self, timeout: float | None = None, *args: Any, **options: Any) -> Any:
        """Wait for the result, unless the job store has it; takes what Celery's own takes.

        Without a result backend the job store is asked every `interval` seconds.
        """
        if isinstance(self.backend, DisabledBackend) and self._store and not self.ignored:
            self._wait_for_job(timeout, options)
        if self._cache is None:
            # The backend may have forgotten it, and waiting there would not end.
            with suppress(StoreUnavailable):
                self._maybe_set_cache(self._get_task_meta())
        return super().get(timeout, *args, **options)

    def _wait_for_job(self, timeout: float | None, options: dict[str, Any]) -> None:
        if options.get("disable_sync_subtasks", True):
            assert_will_not_block()
        ends_at = None if timeout is None else time.monotonic() + timeout
        while not self.ready():
            if ends_at is not None and time.monotonic() >= ends_at:
                raise TimeoutError("The operation timed out.")
            time.sleep(options.get("interval", 0.5))

    def _get_task_meta(self) -> dict[str, Any]:
        if self._cache is None and not isinstance(self.backend, DisabledBackend):
            meta: dict[str, Any] = super()._get_task_meta()
            if meta["status"] in states.READY_STATES:
                return meta
        return self._cache or self._meta_of_job()

    def _meta_of_job(self) -> dict[str, Any]:
        job = self.job
        status = _CELERY_STATES.get(job.state, states.PENDING) if job else states.PENDING
        result: Any = None
        if job and status == states.SUCCESS:
            result = decoded(job.result)
        elif job and status in (states.FAILURE, states.RETRY):
            result = recorded_exception(job.failure)
        trace = job.failure.traceback if job and job.failure else None
        return {"task_id": self.id, "status": status, "result": result, "traceback": trace}
