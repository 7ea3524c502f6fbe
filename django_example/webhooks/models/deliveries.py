"""Events on their way out, and every attempt to get them there."""

import uuid
from collections.abc import Iterable
from typing import ClassVar

from django.db import models
from django.utils import timezone

from django_example.webhooks.exchange import Exchange
from django_example.webhooks.models.events import Event
from django_example.webhooks.models.tenants import Endpoint
from django_example.webhooks.verdicts import Outcome, Verdict

ANSWER_KEPT = 4096


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    """How deliveries come to be and are found."""

    def plan(self, event: Event) -> list["Delivery"]:
        """Create one delivery per endpoint that is subscribed to the event."""
        endpoints = Endpoint.objects.subscribed_to(event)
        return self.bulk_create(Delivery(event=event, endpoint=endpoint) for endpoint in endpoints)

    def addressed(self, tenant: str, source: str, event_id: str, endpoint: int) -> "Delivery":
        """Return one event's delivery to one endpoint, with all that is needed to send it."""
        deliveries = self.select_related("event__tenant", "endpoint")
        event = {
            "event__tenant__slug": tenant,
            "event__source": source,
            "event__event_id": event_id,
        }
        return deliveries.get(endpoint_id=endpoint, **event)


class Delivery(models.Model):
    """One event on its way to one endpoint.

    How it stands is the state of its job. Only the success is kept here too,
    written in the same transaction as the job's.

    Attributes:
        id: Also the id of the job, hence of the Celery task.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    event = models.ForeignKey(Event, models.PROTECT, related_name="deliveries")
    endpoint = models.ForeignKey(Endpoint, models.PROTECT, related_name="deliveries")
    created_at = models.DateTimeField(default=timezone.now)
    delivered_at = models.DateTimeField(null=True, blank=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        """One delivery per event and endpoint."""

        verbose_name_plural = "deliveries"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["event", "endpoint"], name="webhooks_delivery_once"),
        ]

    def __str__(self) -> str:
        """Return what goes where."""
        return f"{self.event} to {self.endpoint}"

    @property
    def job_id(self) -> str:
        """Return the id of the job that sends it."""
        return str(self.pk)

    @property
    def message_id(self) -> str:
        """Return the id that is the same in every attempt, without a dot."""
        return f"msg_{self.pk.hex}"

    def begin_attempt(self, n: int, token: int, worker: str) -> "DeliveryAttempt":
        """Write down that a POST is about to leave."""
        return self.attempts.create(
            n=n,
            token=token,
            worker=worker,
            url=self.endpoint.url,
            body_sha256=self.event.body_sha256,
        )

    def mark_delivered(self) -> None:
        """Record the success; call it inside the lease's commit."""
        self.delivered_at = timezone.now()
        self.save(update_fields=["delivered_at"])


class DeliveryAttempt(models.Model):
    """One POST: the row is there before the POST leaves and completed by its answer.

    A row without ``finished_at`` belongs to an attempt in flight, or to one
    whose worker died with it.
    """

    COMPLETED_BY_ANSWER: ClassVar[Iterable[str]] = (
        "address", "status", "answer", "connected_ms", "answered_ms", "total_ms",
        "verdict", "error_code", "finished_at",
    )  # fmt: skip

    delivery = models.ForeignKey(Delivery, models.CASCADE, related_name="attempts")
    n = models.PositiveSmallIntegerField()
    token = models.BigIntegerField(help_text="The fencing token of the attempt's lease.")
    worker = models.CharField(max_length=300)
    url = models.CharField(max_length=500)
    body_sha256 = models.CharField(max_length=64)
    started_at = models.DateTimeField(default=timezone.now)
    address = models.CharField(max_length=50, blank=True, help_text="The address that was dialled.")
    status = models.PositiveSmallIntegerField(null=True, blank=True)
    answer = models.BinaryField(blank=True, default=b"", help_text="The first 4 kB.")
    connected_ms = models.PositiveIntegerField(
        null=True, blank=True, help_text="Until the connection stood."
    )
    answered_ms = models.PositiveIntegerField(
        null=True, blank=True, help_text="Until the status was there."
    )
    total_ms = models.PositiveIntegerField(null=True, blank=True)
    verdict = models.CharField(max_length=10, choices=Outcome.choices(), blank=True)
    error_code = models.CharField(max_length=50, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    next_attempt_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        """One row per claim of the job."""

        constraints: ClassVar = [
            models.UniqueConstraint(fields=["delivery", "token"], name="webhooks_attempt_once"),
        ]

    def __str__(self) -> str:
        """Return which attempt of what it is."""
        return f"attempt {self.n} of {self.delivery_id}"

    def finish(self, exchange: Exchange, verdict: Verdict) -> None:
        """Complete the row by what came back and what follows from it."""
        self.address = exchange.address
        self.status = exchange.status
        self.answer = exchange.body[:ANSWER_KEPT]
        self.connected_ms = exchange.connected_ms
        self.answered_ms = exchange.answered_ms
        self.total_ms = exchange.total_ms
        self.verdict = verdict.outcome
        self.error_code = verdict.code
        self.finished_at = timezone.now()
        self.save(update_fields=self.COMPLETED_BY_ANSWER)
