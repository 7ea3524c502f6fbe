"""Which messages are to be published, and when."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import BigIntegerField, Exists, ExpressionWrapper, F, OuterRef, Q, Value
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Cast, Least

from celery_lease.django.clock import as_microseconds
from celery_lease.django.fields import MomentField, microseconds
from celery_lease.job import TERMINAL, Due, State
from celery_lease.stores.base import MOST_DOUBLINGS, PUBLISH_HOLD

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from celery_lease.django.models import Job, Submission
    from celery_lease.django.models.job import JobQuerySet
    from celery_lease.django.models.submission import SubmissionQuerySet
    from celery_lease.django.step import Step


def due(step: Step, limit: int) -> list[Due]:
    """Hand out messages, the oldest first."""
    rows = [*_first(_jobs(step, step.now), step, limit)]
    rows += _first(_submissions(step, step.now), step, limit)
    chosen = sorted(rows, key=lambda row: row.next_publish_at)[:limit]
    _hand_out(step, step.jobs, chosen)
    _hand_out(step, step.submissions, chosen)
    return [Due(row.pk, row.message, bytes(row.body), row.attempts) for row in chosen]


def _first(
    rows: JobQuerySet | SubmissionQuerySet, step: Step, limit: int
) -> Sequence[Job | Submission]:
    return list(
        rows.filter(next_publish_at__lte=step.now).order_by("next_publish_at").free()[:limit]
    )


def _hand_out(
    step: Step, table: JobQuerySet | SubmissionQuerySet, chosen: Sequence[Job | Submission]
) -> None:
    ids = [row.pk for row in chosen if isinstance(row, table.model)]
    if ids:
        held = step.after(PUBLISH_HOLD)
        table.filter(pk__in=ids).update(next_publish_at=held, handed_out=True)


def _jobs(step: Step, at: datetime | OuterRef) -> JobQuerySet:
    """Jobs whose message is wanted, leases judged at that time."""
    planned = Q(state__in=(State.PENDING, State.RETRY_WAIT))
    live = Exists(step.leases.filter(pk=OuterRef("pk"), expires_at__gt=at))
    ended = Q(state__in=TERMINAL, settled_at=None)
    return step.jobs.filter(planned | (ended & ~live)).only(
        "message", "body", "attempts", "next_publish_at"
    )


def _submissions(step: Step, at: datetime | OuterRef) -> SubmissionQuerySet:
    """Submissions of ended jobs whose message is wanted, leases judged at that time."""
    job = step.jobs.filter(pk=OuterRef("job_id"))
    live = Exists(step.leases.filter(pk=OuterRef("job_id"), expires_at__gt=at))
    return (
        step.submissions.filter(Exists(job.filter(state__in=TERMINAL)), ~live, settled_at=None)
        .with_attempts()
        .only("message", "body", "next_publish_at")
    )


def next_due_in(step: Step) -> float | None:
    """Seconds until `due` or `expire` finds something."""
    then = OuterRef("next_publish_at")
    times = [
        step.leases.order_by("expires_at").values_list("expires_at", flat=True).first(),
        _earliest(_jobs(step, then)),
        _earliest(_submissions(step, then)),
    ]
    planned = [time for time in times if time is not None]
    return max(0.0, (min(planned) - step.now).total_seconds()) if planned else None


def _earliest(rows: JobQuerySet | SubmissionQuerySet) -> datetime | None:
    planned = rows.filter(next_publish_at__isnull=False).order_by("next_publish_at")
    row = planned.first()
    return row.next_publish_at if row else None


def published(step: Step, task_ids: Sequence[str], republish_after: float, epoch: str) -> None:
    """Note that messages left, for those to whom nothing has happened since."""
    # 2**n as a shift, which every database has: one expression, not a case per n.
    doublings = Least(F("publish_count"), Value(MOST_DOUBLINGS))
    first = Cast(Value(as_microseconds(timedelta(seconds=republish_after))), BigIntegerField())
    wait = ExpressionWrapper(
        CombinedExpression(first, F.BITLEFTSHIFT, doublings), output_field=BigIntegerField()
    )
    now = Cast(Value(microseconds(step.now)), BigIntegerField())
    changes = {
        "next_publish_at": ExpressionWrapper(now + wait, output_field=MomentField()),
        "publish_count": F("publish_count") + 1,
        "published_epoch": epoch,
    }
    if _note(step.jobs, task_ids, changes) < len(task_ids):
        _note(step.submissions, task_ids, changes)


def _note(
    table: JobQuerySet | SubmissionQuerySet, task_ids: Sequence[str], changes: dict[str, Any]
) -> int:
    rows = table.filter(pk__in=task_ids, handed_out=True)
    if len(task_ids) > 1:
        # Only what nobody is writing: to wait for one with another in hand can be a deadlock,
        # and whoever writes a row makes the note void.
        rows = rows.filter(pk__in=list(rows.free().values_list("pk", flat=True)))
    return rows.update(**changes)


def publish_again(step: Step, task_ids: Sequence[str], delay: float) -> None:
    """Plan the next message of what is not settled."""
    changes = {"next_publish_at": step.after(delay), "handed_out": False}
    for table in (step.jobs, step.submissions):
        table.filter(pk__in=task_ids, settled_at=None).update(**changes)


def broker_lost_data(step: Step, epoch: str, limit: int) -> int:
    """Make due what was published under another epoch."""
    moved = 0
    other = Q(published_epoch__gt="", published_epoch__lt=epoch) | Q(published_epoch__gt=epoch)
    for table in (step.jobs, step.submissions):
        lost = table.filter(other, next_publish_at__isnull=False).free()[: limit - moved]
        ids = [row.pk for row in lost.only("pk")]
        changes = {"next_publish_at": step.now, "published_epoch": ""}
        moved += table.filter(pk__in=ids).update(**changes) if ids else 0
    return moved
