"""Who runs: the answer to one claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from celery_lease.django.fields import microseconds
from celery_lease.django.finding import find
from celery_lease.django.moves import end, settle
from celery_lease.django.step import Moved
from celery_lease.django.taking import take_over
from celery_lease.job import (
    Busy,
    Claim,
    Claimed,
    Finished,
    Gone,
    Kind,
    NotDue,
    OtherTask,
    State,
    Unsettled,
)
from celery_lease.lease import Grant

if TYPE_CHECKING:
    from datetime import datetime

    from celery_lease.django.finding import Found
    from celery_lease.django.models import Job
    from celery_lease.django.step import Step


@dataclass(frozen=True)
class Claimant:
    """Who asks, and for how long."""

    task_id: str
    task: str
    owner: str
    ttl: float


def claim(step: Step, by: Claimant) -> Claim:
    """Decide about one claim.

    Raises:
        Moved: The job was moved while this looked at it; ask again.
    """
    found = find(step, by.task_id)
    if found is None:
        return Gone()
    if found.job.task != by.task:
        return OtherTask(found.job.task)
    until = found.job.lease_until
    if until is None:
        return _claim_free(step, found, by)
    if until > step.now:
        return _held(step, found, until)
    job = take_over(step, found.job.id)
    if job is None:
        return Busy()
    found.job = job
    return _claim_free(step, found, by)


def _held(step: Step, found: Found, until: datetime) -> Claim:
    if not found.job.terminal:
        return Busy(until.timestamp())
    if found.handover.settled_at is not None:
        return Finished(found.job.as_record())
    # Its sibling is being handed over; nothing else would publish this one. With the lease
    # row in hand, so that the sibling's settling, which wakes this one, comes after.
    lease = step.leases.filter(pk=found.job.id, expires_at=until).locked().first()
    if lease is None:
        raise Moved
    found.plan(step, next_publish_at=until, handed_out=False)
    return Busy(until.timestamp())


def _claim_free(step: Step, found: Found, by: Claimant) -> Claim:
    job = found.job
    if job.claimable and job.expires_at is not None and job.expires_at <= step.now:
        end(step, job, State.CANCELLED, Kind.CANCELLED, {"reason": "expired"})
    if job.terminal:
        return _claim_outcome(step, found, by)
    if not job.claimable:
        return Busy()
    if job.available_at > step.now:
        step.move(job, next_publish_at=job.available_at, handed_out=False)
        return NotDue(job.available_at.timestamp())
    return _claim_attempt(step, job, by)


def _claim_attempt(step: Step, job: Job, by: Claimant) -> Claimed:
    attempt = job.attempts + 1
    step.move(
        job,
        state=State.RUNNING,
        token=_next_token(step, job),
        owner=by.owner,
        attempts=attempt,
        started_at=step.now,
        next_publish_at=None,
        handed_out=False,
        published_epoch="",
    )
    _lease(step, job, by)
    step.record(job, Kind.CLAIMED, attempt=attempt)
    return Claimed(job.as_record(), _grant(job, by, attempt))


def _claim_outcome(step: Step, found: Found, by: Claimant) -> Finished | Unsettled:
    job, handover = found.job, found.handover
    if handover.settled_at is None and handover.settle_attempts >= job.max_attempts:
        settle(step, job, by.task_id, Kind.HANDOVER_FAILED)
        return Finished(job.as_record())
    if handover.settled_at is not None:
        return Finished(job.as_record())
    again = {
        "settle_attempts": handover.settle_attempts + 1,
        "next_publish_at": step.after(by.ttl),
        "handed_out": False,
    }
    own = {} if found.submission else again
    step.move(job, token=_next_token(step, job), owner=by.owner, **own)
    if found.submission and not found.submission.plan(step.using, **again):
        raise Moved
    _lease(step, job, by)
    return Unsettled(job.as_record(), _grant(job, by, 0), handover.message, bytes(handover.body))


def _next_token(step: Step, job: Job) -> int:
    return max(job.token + 1, microseconds(step.now))


def _lease(step: Step, job: Job, by: Claimant) -> None:
    job.lease_until = step.after(by.ttl)
    step.leases.create(
        job_id=job.id,  # the job itself would ask the project's routers
        token=job.token,
        owner=by.owner,
        expires_at=job.lease_until,
        audit_all=job.audit == "all",
    )


def _grant(job: Job, by: Claimant, attempt: int) -> Grant:
    return Grant(job.id, job.token, by.owner, by.ttl, attempt, by.task_id)
