"""One step of the store: a short transaction, its time, and the events it will leave."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from celery_lease.django.models import Job, JobEvent, JobLease, Submission, Worker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django.db.models import QuerySet

    from celery_lease.django.models.job import JobQuerySet
    from celery_lease.django.models.lease import JobLeaseQuerySet
    from celery_lease.django.models.submission import SubmissionQuerySet
    from celery_lease.job import Kind


class Moved(Exception):
    """What a write expected to find is no longer so; nothing of the step may stay."""


@dataclass
class Step:
    """What the functions of one step share.

    Attributes:
        using: Alias of the database; replicas and routers are never asked.
        now: The store's time when the step began.
    """

    using: str
    now: datetime
    _events: list[JobEvent] = field(default_factory=list)

    @property
    def jobs(self) -> JobQuerySet:
        """All jobs."""
        return Job.objects.using(self.using)

    @property
    def leases(self) -> JobLeaseQuerySet:
        """All leases."""
        return JobLease.objects.using(self.using)

    @property
    def submissions(self) -> SubmissionQuerySet:
        """All submissions that joined a job."""
        return Submission.objects.using(self.using)

    @property
    def events(self) -> QuerySet[JobEvent]:
        """All events."""
        return JobEvent.objects.using(self.using)

    @property
    def workers(self) -> QuerySet[Worker]:
        """All workers."""
        return Worker.objects.using(self.using)

    def after(self, seconds: float) -> datetime:
        """The time so many seconds from now."""
        return self.now + timedelta(seconds=seconds)

    def move(self, job: Job, **changes: Any) -> None:
        """Write `changes` to a job.

        Raises:
            Moved: Somebody else has moved it since it was read.
        """
        if not job.move(self.using, self.now, **changes):
            raise Moved

    def record(self, job: Job, kind: Kind, **details: Any) -> None:
        """Leave an event with what `job` says now of token and owner."""
        if job.audit != "off":
            self.note(job.id, kind, job.token, job.owner, details)

    def note(self, job_id: str, kind: Kind, token: int, owner: str, details: Any) -> None:
        """Leave an event, whatever the job's audit says."""
        self._events.append(
            JobEvent(
                job_id=job_id,
                kind=kind,
                at=self.now,
                token=token,
                owner=owner,
                details=json.dumps(details),
            )
        )

    def write_events(self) -> None:
        """Insert the events left so far, in one statement."""
        events: Sequence[JobEvent] = self._events
        if events:
            self.events.bulk_create(events)
            self._events = []
