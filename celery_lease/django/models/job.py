from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from django.db import models

from celery_lease import job as record
from celery_lease.django.clock import Clock
from celery_lease.django.fields import ExactCharField, MomentField
from celery_lease.django.models.handover import Handover
from celery_lease.django.models.lockable import Lockable
from celery_lease.job import CLAIMABLE, TERMINAL, State

if TYPE_CHECKING:
    from datetime import datetime

    from celery_lease.lease import Grant


#: Columns that may be large, and that only who runs or reports a job needs.
_LARGE = ("message", "body", "arguments", "result", "failure", "checkpoint")


class JobQuerySet(Lockable["Job"]):
    """Questions a store asks about jobs."""

    def running_under(self, grant: Grant) -> Self:
        """The job, if it is still this grant's to end."""
        return self.under(grant).filter(state=State.RUNNING)

    def ended_under(self, grant: Grant) -> Self:
        """The job, if it has ended and its outcome is this grant's to hand over."""
        return self.under(grant).filter(state__in=TERMINAL)

    def under(self, grant: Grant) -> Self:
        """The job, if nobody was given it after this grant."""
        return self.filter(pk=grant.job_id, token=grant.token, owner=grant.owner)

    def light(self) -> Self:
        """The jobs without their large columns."""
        return self.defer(*_LARGE)

    def with_lease(self) -> Self:
        """The jobs, each with `lease_until`."""
        return self.annotate(lease_until=models.F("lease__expires_at"))

    def with_clock(self) -> Self:
        """The jobs, each with `read_at`."""
        return self.annotate(read_at=Clock())

    def with_task_id(self, path: str) -> Self:
        """The jobs, each with the task id at `path` that leads to it."""
        return self.annotate(through=models.F(path))


class Job(Handover):
    """A durable record of one operation; it is also the submission that made it."""

    id = ExactCharField(max_length=255, primary_key=True)
    task = ExactCharField(max_length=255)
    state = ExactCharField(max_length=16)
    key = ExactCharField(max_length=255, null=True, blank=True)
    fingerprint = ExactCharField(max_length=128)
    queue = models.CharField(max_length=255, blank=True)
    tenant = models.CharField(max_length=255, blank=True)
    arguments = models.TextField(blank=True)
    attempts = models.PositiveIntegerField(default=0)
    max_attempts = models.PositiveIntegerField()
    token = models.BigIntegerField(default=0)
    owner = ExactCharField(max_length=255, default="", blank=True)
    available_at = MomentField()
    expires_at = MomentField(null=True)
    result = models.TextField(null=True)  # noqa: DJ001  # null: none recorded yet
    failure = models.TextField(null=True)  # noqa: DJ001  # likewise
    checkpoint = models.TextField(null=True)  # noqa: DJ001  # likewise
    audit = models.CharField(max_length=16)
    created_at = MomentField()
    updated_at = MomentField()
    started_at = MomentField(null=True)
    completed_at = MomentField(null=True)
    kept_for = models.BigIntegerField(help_text="Microseconds the job is kept after its end.")
    keep_until = MomentField()
    # For the concurrency limit.
    limit_key = ExactCharField(max_length=255, null=True, blank=True)
    arrival = models.BigIntegerField(null=True)
    woken_at = MomentField(null=True)

    #: Expiry of the lease row, as `with_lease` read it; it may be over.
    lease_until: datetime | None = None
    #: The store's time then, as `with_clock` read it.
    read_at: datetime | None = None
    #: The task id that leads to it, as `with_task_id` read it.
    through: str = ""

    objects = JobQuerySet.as_manager()

    class Meta:
        """An index for every question; none is partial, because MariaDB has no such indexes."""

        constraints = (
            # A job without a key is not held to it: nulls differ from each other. The key
            # comes first, so that it is found without its task too.
            models.UniqueConstraint(fields=["key", "task"], name="lease_job_operation_key"),
        )
        indexes = (
            models.Index(fields=["next_publish_at"], name="lease_job_next_publish"),
            models.Index(fields=["state", "available_at"], name="lease_job_state"),
            models.Index(fields=["keep_until"], name="lease_job_keep_until"),
            models.Index(fields=["-created_at"], name="lease_job_created"),
            models.Index(fields=["published_epoch"], name="lease_job_epoch"),
        )

    def __str__(self) -> str:
        return f"{self.task} {self.id}"

    @property
    def terminal(self) -> bool:
        """Whether the job has ended."""
        return self.state in TERMINAL

    @property
    def claimable(self) -> bool:
        """Whether a claim can start an attempt."""
        return self.state in CLAIMABLE

    def move(self, using: str, now: datetime, **changes: Any) -> bool:
        """Write `changes`, unless somebody else has moved the job since it was read."""
        unmoved = Job.objects.using(using).filter(
            pk=self.pk,
            state=self.state,
            token=self.token,
            owner=self.owner,
            attempts=self.attempts,
            settled_at=self.settled_at,
        )
        changes["updated_at"] = now
        if not unmoved.update(**changes):
            return False
        for name, value in changes.items():
            setattr(self, name, value)
        return True

    def as_record(self) -> record.Job:
        """The job as every store reports it."""
        return record.Job(
            id=self.id,
            task=self.task,
            state=State(self.state),
            message=self.message,
            body=bytes(self.body),
            fingerprint=self.fingerprint,
            queue=self.queue,
            key=self.key,
            tenant=self.tenant,
            arguments=self.arguments,
            attempts=self.attempts,
            max_attempts=self.max_attempts,
            token=self.token,
            owner=self.owner,
            available_at=self.available_at.timestamp(),
            expires_at=_seconds(self.expires_at),
            lease_until=_seconds(self.lease_until),
            next_publish_at=_seconds(self.next_publish_at),
            publish_count=self.publish_count,
            result=self.result,
            failure=record.Failure.loads(self.failure) if self.failure else None,
            checkpoint=self.checkpoint,
            created_at=self.created_at.timestamp(),
            updated_at=self.updated_at.timestamp(),
            started_at=_seconds(self.started_at),
            completed_at=_seconds(self.completed_at),
            settled_at=_seconds(self.settled_at),
            settle_attempts=self.settle_attempts,
            hands_over=self.hands_over,
            audit=self.audit,
        )


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
