"""What a holder writes: the end of its attempt, and of the hand-over.

Each reads the job under its grant and writes it under what was read (`Job.move`): owner,
token and state are in the condition of both. The lease row goes first, see `taking`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery_lease.django import moves
from celery_lease.django.step import Moved
from celery_lease.job import Kind, State

if TYPE_CHECKING:
    from celery_lease.django.models import Job
    from celery_lease.django.step import Step
    from celery_lease.job import Failure
    from celery_lease.lease import Grant
    from celery_lease.stores.base import Replacement


def running(step: Step, grant: Grant) -> Job:
    """The job, which is this grant's to end.

    Raises:
        Moved: It is not, or no longer.
    """
    job = step.jobs.running_under(grant).with_lease().first()
    if job is None:
        raise Moved
    return job


def succeed(step: Step, grant: Grant, result: str | None, *, settled: bool, reason: str) -> Job:
    """End the job as succeeded."""
    job = running(step, grant)
    moves.leave_if_settled(step, grant, job, settled=settled)
    kind = Kind.REPLACED if reason == "replaced" else Kind.SUCCEEDED
    details = {"reason": reason} if reason else {}
    moves.end(step, job, State.SUCCEEDED, kind, details, result=result, failure=None)
    if settled:
        moves.settle(step, job, grant.task_id, Kind.SETTLED)
    return job


def fail(
    step: Step,
    grant: Grant,
    failure: Failure,
    retry_in: float | None,
    replacement: Replacement | None,
) -> Job:
    """End the attempt: retry in so many seconds, or dead."""
    job = running(step, grant)
    changes: dict[str, Any] = {"failure": failure.dumps(), **_replaced(replacement)}
    if retry_in is not None:
        step.record(job, Kind.RETRY_SCHEDULED, code=failure.code, seconds=retry_in)
        moves.hand_back(step, grant, job, State.RETRY_WAIT, retry_in, **changes)
        return job
    moves.leave_if_settled(step, grant, job, settled=False)
    moves.end(step, job, State.DEAD, Kind.DEAD, {"code": failure.code}, **changes)
    return job


def _replaced(replacement: Replacement | None) -> dict[str, Any]:
    if replacement is None:
        return {}
    return {
        "message": replacement.message,
        "body": replacement.body,
        "arguments": replacement.arguments,
    }


def release(step: Step, grant: Grant, delay: float, reason: str) -> Job:
    """Hand the job back uncounted."""
    job = running(step, grant)
    kind = Kind.DEFERRED if delay > 0 else Kind.RELEASED
    step.record(job, kind, reason=reason, seconds=delay)
    moves.hand_back(step, grant, job, State.PENDING, delay, attempts=job.attempts - 1)
    return job


def amend(step: Step, grant: Grant, result: str) -> None:
    """Record the result of a job that succeeded without one."""
    job = step.jobs.under(grant).filter(state=State.SUCCEEDED).first()
    if job is None:
        raise Moved
    if job.result is None:
        step.move(job, result=result)


def save_checkpoint(step: Step, grant: Grant, checkpoint: str) -> None:
    """Keep what the next attempt reads."""
    if not step.jobs.running_under(grant).update(checkpoint=checkpoint, updated_at=step.now):
        raise Moved


def settle(step: Step, grant: Grant) -> None:
    """Note that the outcome was handed to Celery for the grant's own submission."""
    job = step.jobs.ended_under(grant).light().first()
    if job is None:
        raise Moved
    moves.leave(step, grant, job)
    moves.settle(step, job, grant.task_id, Kind.SETTLED)


def refused(step: Step, grant: Grant, what: str) -> None:
    """Record that a stale holder's `what` was refused."""
    job = step.jobs.filter(pk=grant.job_id).only("token").first()
    if job:
        details = {"what": what, "current": str(job.token)}
        step.note(grant.job_id, Kind.STALE_WRITE_REFUSED, grant.token, grant.owner, details)
