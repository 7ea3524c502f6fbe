"""From a signed request to a stored event and its delivery jobs.

The order of the checks is part of the interface: nothing of a body is parsed
before its signature has passed.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import structlog
from django.db import InterfaceError, OperationalError, transaction

from celery_lease.errors import StoreUnavailable
from django_example import policy
from django_example.webhooks.envelopes import Envelope
from django_example.webhooks.models import Delivery, Event, Tenant
from django_example.webhooks.refusals import Refusal, invalid_signature, unavailable
from django_example.webhooks.sources import Claim, find_source
from django_example.webhooks.tasks import submit

log = structlog.get_logger(__name__)

# Signs for a tenant that does not exist, so that it takes as long as one that does.
NOBODYS_SECRET = "whsec_bm9ib2R5IGhhcyB0aGlzIHNlY3JldA=="  # noqa: S105 - nobody has it


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the sender of an accepted event is told.

    Attributes:
        duplicate: The event was here already and nothing was queued.
        conflict: It was here already with another body, which was not kept.
        job_id: The event's first delivery job, None if nobody subscribed to it.
    """

    duplicate: bool
    conflict: bool
    job_id: str | None

    @property
    def status(self) -> int:
        """Return the HTTP status: 202 for what is queued now, 200 for what was before."""
        return 200 if self.duplicate else 202

    def as_json(self) -> dict[str, object]:
        """Return the body of the answer."""
        answer: dict[str, object] = {
            "accepted": True,
            "duplicate": self.duplicate,
            "jobId": self.job_id,
        }
        return answer | ({"conflict": True} if self.conflict else {})


def accept(tenant: str, source: str, headers: Mapping[str, str], body: bytes) -> Receipt:
    """Take one event, once, however often and from however many sides it comes.

    Args:
        tenant: Slug of the tenant in the URL.
        source: Name of the kind of sender.
        headers: The request's headers, names in any case.
        body: The request's raw bytes.

    Raises:
        Refusal: If the event is not taken; nothing was stored then.
    """
    adapter = find_source(source)
    claim = adapter.read_claim(headers)
    with _answering_outages():
        owner = _authenticate(tenant, claim, body)
        envelope = adapter.read_envelope(headers, body)
        return _record(owner, source, envelope, body)


@contextmanager
def _answering_outages() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError, StoreUnavailable) as error:
        log.exception("webhook.not_stored")
        raise unavailable() from error


def _authenticate(slug: str, claim: Claim, body: bytes) -> Tenant:
    tenant = Tenant.objects.filter(slug=slug).first()
    secrets = tenant.active_secrets() if tenant else [NOBODYS_SECRET]
    fresh = claim.is_fresh(time.time(), policy.SIGNATURE_TOLERANCE)
    signed = claim.is_by(secrets, body)
    if tenant is None or not fresh or not signed:
        raise invalid_signature()
    return tenant


@transaction.atomic
def _record(tenant: Tenant, source: str, envelope: Envelope, body: bytes) -> Receipt:
    event, is_new = Event.objects.record(tenant, source, envelope, body)
    conflict = not event.has_body(body)
    if is_new:
        for delivery in Delivery.objects.plan(event):
            submit(delivery)
    elif conflict:
        event.flag_conflict()
    return _receipt(event, duplicate=not is_new, conflict=conflict)


def _receipt(event: Event, *, duplicate: bool, conflict: bool) -> Receipt:
    first = event.deliveries.order_by("endpoint_id").first()
    return Receipt(duplicate, conflict, first.job_id if first else None)


def log_outcome(tenant: str, source: str, outcome: Receipt | Refusal) -> None:
    """Write the one log line that every request leaves."""
    if isinstance(outcome, Receipt):
        log.info("webhook.accepted", tenant=tenant, source=source, **outcome.as_json())
    else:
        log.warning("webhook.rejected", tenant=tenant, source=source, code=outcome.code)
