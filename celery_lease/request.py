"""Celery's request in the worker's main process, which asks the store before it judges."""

from __future__ import annotations

import logging
from typing import Any

from celery.exceptions import TimeLimitExceeded
from celery.worker.request import Request
from celery.worker.state import task_ready

from celery_lease import keys, owner, signals
from celery_lease.errors import AttemptTimeout, LeaseError
from celery_lease.job import Failure, Job, State
from celery_lease.lease import Grant
from celery_lease.policy import delay_after
from celery_lease.runtime import runtime_of

logger = logging.getLogger(__name__)


class LeasedRequest(Request):
    """A request of a leased task."""

    def on_timeout(self, soft: bool, timeout: float) -> None:  # noqa: FBT001 - Celery's signature
        """A hard limit killed the child: fail its attempt under the task's retry policy."""
        if soft:
            super().on_timeout(soft, timeout)
            return
        job = self._fail_attempt(timeout)
        if job is not None and job.state is State.DEAD:
            super().on_timeout(soft, timeout)
            return
        task_ready(self)
        logger.error("hard time limit (%ss) exceeded for %s[%s]", timeout, self.name, self.id)
        if job is not None:
            self.task.backend.mark_as_retry(
                self.id, TimeLimitExceeded(timeout), request=self._context
            )
        self.acknowledge()

    def _fail_attempt(self, timeout: float) -> Job | None:
        """The job after its attempt was failed; `None` if its lease has to end by itself."""
        task: Any = self.task
        submission = keys.submission_id(self.id, self.replaced_task_nesting or 0)
        try:
            store = runtime_of(task.app, task.lease_options).store
            job = store.get(submission)
            if job is None or job.state is not State.RUNNING or not owner.is_ours(job.owner):
                return None
            exc = AttemptTimeout(f"hard time limit of {timeout} s")
            failure = Failure("TimeLimitExceeded", str(exc), exc.code)
            wait = delay_after(task.lease_options, exc, job.attempts)
            last = job.attempts >= job.max_attempts
            grant = Grant(job.id, job.token, job.owner, 0.0, job.attempts, submission)
            job = store.fail(grant, failure, None if last else wait)
        except LeaseError as refused:
            logger.warning("timed out job %s is left to its lease: %s", submission, refused)
            return None
        if last:
            signals.job_dead.send(task, job=job, failure=failure)
        else:
            signals.job_retrying.send(task, job=job, failure=failure, retry_in=wait)
        return job
