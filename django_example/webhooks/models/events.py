"""The events that came in."""

import hashlib
import uuid
from typing import ClassVar, Self

from django.db import models
from django.utils import timezone

from celery_lease.django.fields import ExactCharField
from django_example.webhooks.envelopes import Envelope
from django_example.webhooks.models.tenants import Tenant


class EventQuerySet(models.QuerySet["Event"]):
    """How events are stored."""

    def record(
        self, tenant: Tenant, source: str, envelope: Envelope, body: bytes
    ) -> tuple["Event", bool]:
        """Store the event unless it is there already.

        The unique constraint decides, in the one statement that inserts: of any
        number of simultaneous calls one sees its own row come back.

        Returns:
            The stored event, and whether this call stored it.
        """
        event = Event.of(tenant, source, envelope, body)
        self.bulk_create([event], ignore_conflicts=True)
        stored = self.get(tenant=tenant, source=source, event_id=envelope.event_id)
        return stored, stored.pk == event.pk


class Event(models.Model):
    """An event as it came in. Its bytes are stored once and never changed."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="events")
    source = ExactCharField(max_length=50)
    event_id = ExactCharField(max_length=200)
    type = models.CharField(max_length=200)
    created_at = models.DateTimeField(help_text="As the sender says.")
    received_at = models.DateTimeField(default=timezone.now)
    body = models.BinaryField()
    body_sha256 = models.CharField(max_length=64)
    conflict = models.BooleanField(
        default=False, help_text="The same id came again with another body."
    )
    conflict_count = models.PositiveIntegerField(default=0)

    objects = EventQuerySet.as_manager()

    class Meta:
        """One row per id of a sender."""

        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "source", "event_id"], name="webhooks_event_once"
            ),
        ]

    def __str__(self) -> str:
        """Return the sender's id."""
        return str(self.event_id)

    @classmethod
    def of(cls, tenant: Tenant, source: str, envelope: Envelope, body: bytes) -> Self:
        """Return an unsaved event for a body and what was read from it."""
        return cls(
            tenant=tenant,
            source=source,
            event_id=envelope.event_id,
            type=envelope.type,
            created_at=envelope.created_at,
            body=body,
            body_sha256=hashlib.sha256(body).hexdigest(),
        )

    def has_body(self, body: bytes) -> bool:
        """Tell whether ``body`` is the one that is stored."""
        return self.body_sha256 == hashlib.sha256(body).hexdigest()

    def flag_conflict(self) -> None:
        """Note that the id came again with another body, which is not kept."""
        Event.objects.filter(pk=self.pk).update(
            conflict=True, conflict_count=models.F("conflict_count") + 1
        )
