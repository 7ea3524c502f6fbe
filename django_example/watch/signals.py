"""The life of jobs as log lines, from the library's signals."""

from typing import Any

import structlog

from celery_lease import signals
from celery_lease.job import Expired, Failure, Job
from celery_lease.lease import Grant

log = structlog.get_logger(__name__)


def connect() -> None:
    """Log every transition that this process makes."""
    signals.lease_claimed.connect(started)
    signals.job_succeeded.connect(succeeded)
    signals.job_retrying.connect(retry_scheduled)
    signals.job_dead.connect(dead)
    signals.lease_lost.connect(lease_lost)
    signals.lease_expired.connect(lease_expired)
    signals.stale_write_refused.connect(stale_write_refused)


def started(job: Job, **_: Any) -> None:
    """An attempt has begun."""
    log.info("job.started", **_described(job))


def succeeded(job: Job, **_: Any) -> None:
    """A job is done."""
    log.info("job.succeeded", **_described(job))


def retry_scheduled(job: Job, failure: Failure, retry_in: float, **_: Any) -> None:
    """An attempt failed and another will follow."""
    log.warning("job.retry_scheduled", code=failure.code, retry_in=retry_in, **_described(job))


def dead(job: Job, failure: Failure, **_: Any) -> None:
    """A job was given up."""
    log.error("job.dead", code=failure.code, **_described(job))


def lease_lost(grant: Grant, **_: Any) -> None:
    """A heartbeat found out that its lease had ended."""
    log.error("job.heartbeat_failed", job=grant.job_id, token=grant.token)


def lease_expired(expired: Expired, **_: Any) -> None:
    """The sweeper took a job from a holder that was silent."""
    log.warning("job.lease_expired", job=expired.job_id, token=expired.token, owner=expired.owner)


def stale_write_refused(grant: Grant, what: str, **_: Any) -> None:
    """A holder that had lost its lease tried to write."""
    name = "job.failure_not_recorded" if what == "fail" else "job.stale_write_refused"
    log.error(name, job=grant.job_id, token=grant.token, what=what)


def _described(job: Job) -> dict[str, object]:
    return {
        "job": job.id,
        "task": job.task,
        "key": job.key,
        "attempt": job.attempts,
        "token": job.token,
    }
