"""Taking a job from a holder: because its lease ended, it is dead, or an operator says so.

The order is always lease row, then job row, and neither is waited for: a commit holds the
job row, and a take-over that waited for it with the lease in hand would hold up renewals and
in the end be a deadlock whose victim is the commit. What is skipped is for the next call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_lease.django import moves
from celery_lease.job import Expired, Kind, State
from celery_lease.stores.memory import lost_holder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery_lease.django.models import Job, JobLease
    from celery_lease.django.step import Step


def expire(step: Step, limit: int) -> list[Expired]:
    """Take jobs whose lease has ended."""
    # Twice, because no index serves a comparison with a clock that moves.
    ended = step.leases.ended().filter(expires_at__lte=step.now)
    leases = ended.order_by("expires_at").free()[:limit]
    return take(step, list(leases), Kind.LEASE_EXPIRED)


def expire_owner(step: Step, owner: str, reason: str) -> list[Expired]:
    """Take all jobs of a dead holder."""
    leases = step.leases.filter(owner=owner).free()
    return take(step, list(leases), Kind.FORCE_EXPIRED, reason)


def take(step: Step, locked: Sequence[JobLease], kind: Kind, reason: str = "") -> list[Expired]:
    """Take the jobs of locked lease rows, but those whose own row somebody holds."""
    leases = {lease.job_id: lease for lease in locked}
    if not leases:
        return []
    jobs = list(step.jobs.filter(pk__in=leases).light().free())
    ended = {job.id for job in jobs}
    if len(ended) < len(leases):
        ended |= _without_job(step, leases.keys() - ended)
    step.leases.filter(pk__in=ended).delete()
    taken = [take_one(step, job, leases[job.id], kind, reason) for job in jobs]
    return [expired for expired in taken if expired]


def _without_job(step: Step, job_ids: set[str]) -> set[str]:
    """Which of these jobs are not held by somebody but gone: rows can be deleted by hand."""
    return job_ids - set(step.jobs.filter(pk__in=job_ids).values_list("pk", flat=True))


def take_over(step: Step, job_id: str) -> Job | None:
    """The locked job, taken from a holder whose lease has ended; `None` if it is busy."""
    lease = step.leases.filter(pk=job_id).ended().free().first()
    job = step.jobs.filter(pk=job_id).free().first() if lease else None
    if lease and job:
        step.leases.filter(pk=job_id).delete()
        take_one(step, job, lease, Kind.LEASE_EXPIRED)
    return job


def take_one(step: Step, job: Job, lease: JobLease, kind: Kind, reason: str = "") -> Expired | None:
    """Move a locked job whose lease row is gone; `None` if it was not running under it."""
    if job.terminal:
        moves.wake(step, job)
    if job.state != State.RUNNING or job.token != lease.token:
        return None
    step.record(job, kind, **({"reason": reason} if reason else {}))
    if job.attempts >= job.max_attempts:
        changes = {"failure": lost_holder(job.attempts, reason).dumps(), "owner": ""}
        moves.end(step, job, State.DEAD, Kind.DEAD, {"code": "HOLDER_LOST"}, **changes)
    else:
        moves.back_to_pending(step, job)
    age = (step.now - (job.started_at or step.now)).total_seconds()
    return Expired(job.id, job.task, lease.token, lease.owner, State(job.state), age)
