"""What operators and the sweeper's housekeeping ask for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import connections
from django.db.models import Exists, OuterRef

from celery_lease.django import moves
from celery_lease.django.finding import find
from celery_lease.django.models import Worker
from celery_lease.django.step import Moved
from celery_lease.errors import WrongJobState
from celery_lease.job import TERMINAL, Kind, State

if TYPE_CHECKING:
    from celery_lease.django.models import Job
    from celery_lease.django.models.job import JobQuerySet
    from celery_lease.django.step import Step

_REPLAYABLE = (State.DEAD, State.CANCELLED)
_WORKER_REMEMBERED = timedelta(days=1)


def cancel(step: Step, task_id: str, by: str) -> bool:
    """Cancel a job that is not terminal.

    Raises:
        Moved: Somebody is writing the job or its lease; wait for that and ask again.
    """
    found = find(step, task_id)
    if found is None or found.job.terminal:
        return False
    job = found.job
    if job.lease_until is not None and not step.leases.filter(pk=job.id).free().exists():
        raise Moved
    if not step.jobs.filter(pk=job.id).free().exists():
        raise Moved
    step.leases.filter(pk=job.id, token=job.token).delete()
    moves.end(step, job, State.CANCELLED, Kind.CANCELLED, {"by": by}, owner="")
    moves.wake_joined(step, job)
    return True


def wait_for_lease(step: Step, task_id: str) -> None:
    """Wait until nobody is writing the job's lease row."""
    found = find(step, task_id)
    if found:
        step.leases.filter(pk=found.job.id).locked().exists()


def wait_for_job(step: Step, task_id: str) -> None:
    """Wait until nobody is writing the job, with nothing else in hand."""
    found = find(step, task_id)
    if found:
        step.jobs.filter(pk=found.job.id).locked().exists()


def replay(step: Step, job: Job, by: str) -> None:
    """Make a dead or cancelled job pending again, and hand the new outcome to everybody.

    Raises:
        WrongJobState: It is neither.
        Moved: It was moved since it was read.
    """
    if job.state not in _REPLAYABLE:
        raise WrongJobState(f"job {job.id} is {job.state}; only dead or cancelled replay")
    again = {
        "settled_at": None,
        "settle_attempts": 0,
        "next_publish_at": step.now,
        "handed_out": False,
    }
    step.leases.filter(pk=job.id).delete()
    job.lease_until = None
    step.move(
        job,
        state=State.PENDING,
        attempts=0,
        owner="",
        available_at=step.now,
        expires_at=None,
        completed_at=None,
        **again,
    )
    if job.key:
        step.submissions.filter(job=job, hands_over=True).update(**again)
    step.record(job, Kind.REPLAYED, by=by)


def prune(step: Step, limit: int) -> int:
    """Delete settled jobs whose retention has ended, with all that belongs to them."""
    step.workers.filter(until__lt=step.now - _WORKER_REMEMBERED).delete()
    oldest = _prunable(step).order_by("keep_until").free().values_list("pk", flat=True)
    chosen = list(oldest[:limit])
    # Once more, now that they are locked: a submission may have joined meanwhile.
    ids = list(_prunable(step).filter(pk__in=chosen).values_list("pk", flat=True))
    if ids:
        step.events.filter(job__in=ids).delete()
        step.submissions.filter(job__in=ids).delete()
        step.jobs.filter(pk__in=ids).delete()
    return len(ids)


def _prunable(step: Step) -> JobQuerySet:
    waiting = step.submissions.filter(job=OuterRef("pk"), settled_at=None)
    # Those that a commit left behind are for `expire`, which knows the order of locks.
    leases = step.leases.filter(pk=OuterRef("pk"))
    return step.jobs.filter(
        ~Exists(waiting),
        ~Exists(leases),
        state__in=TERMINAL,
        keep_until__lte=step.now,
        settled_at__isnull=False,
    )


def register_worker(step: Step, name: str, ttl: float) -> None:
    """Note that a worker lives, whether or not it was known."""
    features = connections[step.using].features
    step.workers.bulk_create(
        [Worker(name=name, until=step.after(ttl))],
        update_conflicts=True,
        update_fields=["until"],
        unique_fields=["name"] if features.supports_update_conflicts_with_target else None,
    )


def forget_worker(step: Step, name: str) -> None:
    """Note that a worker has stopped."""
    step.workers.filter(pk=name).delete()
