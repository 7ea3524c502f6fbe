"""The numbers of a health page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Count, Min, Q

from celery_lease.job import CLAIMABLE, Counts, State

if TYPE_CHECKING:
    from celery_lease.django.step import Step


def counts(step: Step) -> Counts:
    """Jobs by state from one walk over the index of states, and the live leases."""
    ready = Q(state__in=CLAIMABLE, available_at__lte=step.now)
    rows = list(
        step.jobs.values("state").annotate(
            jobs=Count("*"),
            ready=Count("available_at", filter=ready),
            oldest=Min("available_at", filter=ready),
        )
    )
    oldest = [row["oldest"] for row in rows if row["oldest"] is not None]
    return Counts(
        by_state={State(row["state"]): row["jobs"] for row in rows},
        # A commit leaves its lease row: only the job tells whether anybody runs.
        active_leases=step.leases.filter(expires_at__gt=step.now, job__state=State.RUNNING).count(),
        due=sum(row["ready"] for row in rows),
        oldest_pending=(step.now - min(oldest)).total_seconds() if oldest else None,
    )
