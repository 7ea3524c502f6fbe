"""The changes that several verbs share, each with its event."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from celery_lease.job import Kind, State

if TYPE_CHECKING:
    from celery_lease.django.models import Job
    from celery_lease.django.step import Step
    from celery_lease.lease import Grant


def end(
    step: Step, job: Job, state: State, kind: Kind, details: dict[str, Any], **changes: Any
) -> None:
    """End a job; it writes no submission, `due` finds those that joined."""
    step.record(job, kind, **details)
    step.move(job, **ended(step, job, state), **changes)


def ended(step: Step, job: Job, state: State) -> dict[str, Any]:
    """What an end changes, whichever it is."""
    kept_for = timedelta(microseconds=job.kept_for)
    return {
        "state": state,
        "completed_at": step.now,
        "keep_until": max(job.keep_until, step.now + kept_for),
        "next_publish_at": step.now if job.hands_over else None,
        "handed_out": False,
        "settled_at": job.settled_at if job.hands_over else step.now,
    }


def back_to_pending(step: Step, job: Job) -> None:
    """Make a job claimable at once."""
    step.move(
        job,
        state=State.PENDING,
        owner="",
        available_at=step.now,
        next_publish_at=step.now,
        handed_out=False,
    )


def hand_back(
    step: Step, grant: Grant, job: Job, state: State, delay: float, **changes: Any
) -> None:
    """Give a job up, to be claimed again in `delay` seconds."""
    at = step.after(delay)
    leave(step, grant, job)
    step.move(
        job,
        state=state,
        owner="",
        available_at=at,
        next_publish_at=at,
        handed_out=False,
        **changes,
    )


def leave(step: Step, grant: Grant, job: Job) -> None:
    """Delete the grant's lease row; always before the job is written, see `taking`."""
    step.leases.of(grant).delete()
    job.lease_until = None


def leave_if_settled(step: Step, grant: Grant, job: Job, *, settled: bool) -> None:
    """Delete the lease row, unless its holder has an outcome to hand out under it."""
    if not settled and grant.task_id == job.id:
        settled = not job.hands_over
    elif not settled:
        settled = not step.submissions.filter(pk=grant.task_id, settled_at=None).exists()
    if settled:
        leave(step, grant, job)


def settle(step: Step, job: Job, task_id: str, kind: Kind) -> None:
    """Note that an outcome needs no more handing over, and wake those that waited for it."""
    settled = {"settled_at": step.now, "next_publish_at": None, "handed_out": False}
    if task_id != job.id:
        # The job first, as everywhere, and under what was read of it.
        step.move(job, **_woken(step, job))
        unsettled = step.submissions.filter(pk=task_id, settled_at=None)
        written = unsettled.update(**settled) > 0
    else:
        written = job.settled_at is None
        if written:
            step.move(job, **settled)
    if written:
        step.record(job, kind, task_id=task_id)
    wake_joined(step, job)


def wake(step: Step, job: Job) -> None:
    """Make due what was not handed over for a job that has ended."""
    if woken := _woken(step, job):
        step.move(job, **woken)
    wake_joined(step, job)


def _woken(step: Step, job: Job) -> dict[str, Any]:
    return {"next_publish_at": step.now, "handed_out": False} if job.settled_at is None else {}


def wake_joined(step: Step, job: Job) -> None:
    """The same of the submissions that joined it; without a key none did."""
    if not job.key:
        return
    later = step.submissions.filter(job=job, settled_at=None, next_publish_at__gt=step.now)
    later.update(next_publish_at=step.now, handed_out=False)
