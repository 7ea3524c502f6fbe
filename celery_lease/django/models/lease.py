from __future__ import annotations

from typing import TYPE_CHECKING, Self

from django.db import models

from celery_lease.django.clock import Clock
from celery_lease.django.fields import ExactCharField, MomentField
from celery_lease.django.models.job import Job
from celery_lease.django.models.lockable import Lockable

if TYPE_CHECKING:
    from celery_lease.lease import Grant


class JobLeaseQuerySet(Lockable["JobLease"]):
    """Questions a store asks about leases."""

    def of(self, grant: Grant) -> Self:
        """The lease this grant was given, if it is still there."""
        return self.filter(job=grant.job_id, token=grant.token, owner=grant.owner)

    def ended(self) -> Self:
        """Leases that nobody renewed in time, by the clock of the statement itself."""
        return self.filter(expires_at__lte=Clock())

    def live(self) -> Self:
        """Leases that have not ended, by the clock of the statement itself."""
        return self.filter(expires_at__gt=Clock())


class JobLease(models.Model):
    """The time-limited right to run one attempt.

    A row of its own, narrow, so that a renewal neither rewrites the job nor waits for a
    commit that holds it. It never means that the job is running: a commit leaves it behind.

    Attributes:
        ask: What an operator asks of the holder.
        audit_all: Whether each renewal is an event.
    """

    job = models.OneToOneField(
        Job,
        primary_key=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        related_name="lease",
    )
    token = models.BigIntegerField()
    owner = ExactCharField(max_length=255)
    expires_at = MomentField()
    ask = ExactCharField(max_length=16, default="", blank=True)
    renewals = models.PositiveIntegerField(default=0)
    audit_all = models.BooleanField(default=False)

    objects = JobLeaseQuerySet.as_manager()

    class Meta:
        """Leases are found by the time at which they end, and by a holder that has died."""

        indexes = (
            models.Index(fields=["expires_at"], name="lease_lease_expires"),
            models.Index(fields=["owner"], name="lease_lease_owner"),
        )

    def __str__(self) -> str:
        return f"{self.owner} on {self.job_id}"
