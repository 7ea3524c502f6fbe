"""How the demo's deliveries stand, read from where the truth is: database, job store, receiver."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import httpx2

from celery_lease.job import State
from celery_lease.stores.base import JobStore
from django_example.webhooks.models import Delivery, DeliveryAttempt


@dataclass(frozen=True)
class Row:
    """One line of the final table.

    Attributes:
        attempts: Attempts that were begun, as the job counts them.
        seconds: From arrival to recorded success, None if it is not delivered.
        requests: How often the receiver was asked.
        applied: How often it applied the event; once is right.
    """

    event_id: str
    type: str
    tenant: str
    attempts: int
    state: str
    seconds: float | None
    requests: int
    applied: int

    @property
    def is_right(self) -> bool:
        """Tell whether the event was delivered and applied exactly once."""
        return self.state == State.SUCCEEDED and self.applied == 1


@dataclass(frozen=True)
class Progress:
    """How far the deliveries are."""

    delivered: int
    in_flight: int
    ended: int


def measure_progress(store: JobStore, event_ids: Collection[str]) -> Progress:
    """Count deliveries that are recorded as delivered, being sent, and at an end of any kind."""
    deliveries = Delivery.objects.filter(event__event_id__in=event_ids)
    waiting = [delivery.job_id for delivery in deliveries.filter(delivered_at=None)]
    delivered = deliveries.exclude(delivered_at=None).count()
    attempts = DeliveryAttempt.objects.filter(delivery__in=deliveries, finished_at=None)
    jobs = [store.get(job_id) for job_id in waiting]
    given_up = sum(job is not None and job.terminal for job in jobs)
    return Progress(delivered, attempts.count(), delivered + given_up)


def read_rows(store: JobStore, event_ids: Sequence[str], receiver: str) -> list[Row]:
    """Return one row per event, in the order of ``event_ids``.

    Args:
        store: The job store.
        event_ids: The events of this run.
        receiver: Base URL of the receiver.
    """
    seen = _seen_by(receiver)
    deliveries = Delivery.objects.filter(event__event_id__in=event_ids)
    rows = [_row(store, one, seen) for one in deliveries.select_related("event__tenant")]
    return sorted(rows, key=lambda row: event_ids.index(row.event_id))


def _seen_by(receiver: str) -> dict[str, Counter[str]]:
    response = httpx2.get(f"{receiver}/applied", timeout=30, trust_env=False)
    seen: dict[str, Counter[str]] = {}
    for entry in response.raise_for_status().json()["deliveries"]:
        counts = {"requests": entry["requests"], "applied": entry["applied"]}
        seen.setdefault(entry["event"], Counter()).update(counts)
    return seen


def _row(store: JobStore, delivery: Delivery, seen: dict[str, Counter[str]]) -> Row:
    event, job = delivery.event, store.get(delivery.job_id)
    counts = seen.get(event.event_id, Counter())
    since = delivery.delivered_at and delivery.delivered_at - event.received_at
    return Row(
        event_id=event.event_id,
        type=event.type,
        tenant=event.tenant.slug,
        attempts=job.attempts if job else 0,
        state=job.state if job else "missing",
        seconds=since.total_seconds() if since else None,
        requests=counts["requests"],
        applied=counts["applied"],
    )
