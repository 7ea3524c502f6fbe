"""Keeping leases: one statement for all that a process holds."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import BigIntegerField, Case, ExpressionWrapper, F, Q, Value, When

from celery_lease.django.clock import Clock, as_microseconds
from celery_lease.django.fields import MomentField
from celery_lease.job import Kind, Renewal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models.expressions import CombinedExpression

    from celery_lease.django.step import Step
    from celery_lease.lease import Grant


#: Leases per statement; SQLite takes no condition of more than a thousand parts.
_BATCH = 500


def renew(step: Step, grants: Sequence[Grant]) -> Renewal:
    """Extend the leases that have not ended, by the clock of the statement itself."""
    lost: set[Grant] = set()
    for start in range(0, len(grants), _BATCH):
        lost |= _lost(step, grants[start : start + _BATCH])
    return Renewal(lost=frozenset(lost))


def _lost(step: Step, grants: Sequence[Grant]) -> set[Grant]:
    by_lease = {(grant.job_id, grant.token, grant.owner): grant for grant in grants}
    mine = Q()
    for job_id, token, owner in by_lease:
        mine |= Q(job=job_id, token=token, owner=owner)
    live = step.leases.filter(mine).live()
    renewed = {"expires_at": _until(grants), "renewals": F("renewals") + 1}
    if live.filter(audit_all=False).update(**renewed) == len(by_lease):
        return set()
    live.filter(audit_all=True).update(**renewed)
    for lease in live:
        del by_lease[lease.job_id, lease.token, lease.owner]
        if lease.audit_all:
            step.note(lease.job_id, Kind.LEASE_RENEWED, lease.token, lease.owner, {})
    return {grant for grant in grants if (grant.job_id, grant.token, grant.owner) in by_lease}


def _until(grants: Sequence[Grant]) -> ExpressionWrapper[CombinedExpression]:
    lasts = {grant.job_id: _duration(grant.ttl) for grant in grants}
    first, *others = set(lasts.values())
    ttl: Value | Case = Value(first, output_field=BigIntegerField())
    if others:
        cases = [When(job=job_id, then=Value(last)) for job_id, last in lasts.items()]
        ttl = Case(*cases, output_field=BigIntegerField())
    return ExpressionWrapper(Clock() + ttl, output_field=MomentField())


def _duration(seconds: float) -> int:
    return as_microseconds(timedelta(seconds=seconds))
