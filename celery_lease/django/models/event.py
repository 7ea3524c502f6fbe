from __future__ import annotations

import json
from typing import Any

from django.db import models

from celery_lease import job as record
from celery_lease.django.fields import ExactCharField, MomentField
from celery_lease.django.models.job import Job


class JobEvent(models.Model):
    """One entry of a job's record, written with the change it records.

    Attributes:
        details: JSON text, because PostgreSQL's JSON types refuse the NUL that a
            message of an exception may hold.
    """

    job = models.ForeignKey(
        Job,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="events",
    )
    kind = ExactCharField(max_length=32)
    at = MomentField()
    token = models.BigIntegerField(default=0)
    owner = ExactCharField(max_length=255, default="", blank=True)
    details = models.TextField(default="{}")

    class Meta:
        """Events are read by job, in the order in which they were written."""

        indexes = (models.Index(fields=["job", "id"], name="lease_event_job"),)

    def __str__(self) -> str:
        return f"{self.kind} of {self.job_id}"

    @property
    def facts(self) -> dict[str, Any]:
        """The details, read."""
        facts: dict[str, Any] = json.loads(self.details)
        return facts

    def as_record(self) -> record.Event:
        """The event as every store reports it."""
        return record.Event(
            self.job_id,
            record.Kind(self.kind),
            self.at.timestamp(),
            self.token,
            self.owner,
            self.facts,
        )
