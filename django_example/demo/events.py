"""The events that the demo posts: real-shaped, signed, and some of them with a hard way to go."""

import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Self

import httpx2

from django_example.demo.receiver import Fault
from django_example.demo.seeding import SeededTenant
from django_example.webhooks import signatures

SAMPLES = Path(__file__).parents[1] / "samples"
# Types that are met with trouble: a receiver that is down at first, one that
# fails after it has applied the event, one that is slow.
FAULTS = {
    "order.paid": Fault(failures=2),
    "invoice.issued": Fault(failures=1, applied_first=True),
    "subscription.ended": Fault(failures=1),
    "shipment.delayed": Fault(delay=1.5),
    "payment.disputed": Fault(delay=1.5),
    "checkout.abandoned": Fault(delay=1.5),
}
# Sent twice, as senders do that have not seen the answer.
REPEATED = frozenset({"customer.created", "product.updated"})


@dataclass(frozen=True)
class SignedEvent:
    """One event of a tenant, ready to be posted."""

    tenant: str
    event_id: str
    type: str
    body: bytes
    secret: str

    @classmethod
    def of(cls, tenant: SeededTenant, event_type: str, payload: object) -> Self:
        """Put a payload into an envelope with an id of its own."""
        event_id = f"evt_{uuid.uuid4().hex}"
        created = datetime.now(UTC).isoformat()
        envelope = {"id": event_id, "type": event_type, "createdAt": created, "payload": payload}
        body = json.dumps(envelope, ensure_ascii=False).encode()
        return cls(tenant.slug, event_id, event_type, body, tenant.secrets[0])

    def headers(self) -> dict[str, str]:
        """Sign for a request that leaves now."""
        signature = signatures.sign([self.secret], int(time.time()), self.body)
        return {"Content-Type": "application/json", signatures.HEADER: signature}


def prepare_events(tenants: Sequence[SeededTenant]) -> list[SignedEvent]:
    """Make one event of each sample, for the tenants in turn."""
    files = sorted(SAMPLES.glob("*.json"))
    return [
        SignedEvent.of(tenant, file.stem, json.loads(file.read_text(encoding="utf-8")))
        for file, tenant in zip(files, cycle(tenants), strict=False)
    ]


def write_plan(path: Path, tenants: Sequence[SeededTenant], events: Sequence[SignedEvent]) -> None:
    """Write down for the receiver whom it knows and for which events it misbehaves."""
    faults = {one.event_id: asdict(FAULTS[one.type]) for one in events if one.type in FAULTS}
    plan = {"secrets": {tenant.slug: tenant.secrets for tenant in tenants}, "faults": faults}
    path.write_text(json.dumps(plan))


def post_events(base: str, events: Sequence[SignedEvent]) -> int:
    """Post all events, some of them twice.

    Args:
        base: URL of the web server, without a slash at its end.

    Returns:
        How many were answered as duplicates.

    Raises:
        httpx2.HTTPStatusError: If one is not accepted.
    """
    with httpx2.Client(base_url=base, timeout=30, trust_env=False) as client:
        answers = [_post(client, event) for event in _with_repeats(events)]
    return sum(answer["duplicate"] is True for answer in answers)


def _with_repeats(events: Sequence[SignedEvent]) -> list[SignedEvent]:
    return [*events, *(event for event in events if event.type in REPEATED)]


def _post(client: httpx2.Client, event: SignedEvent) -> dict[str, object]:
    response = client.post(
        f"/webhooks/{event.tenant}/", content=event.body, headers=event.headers()
    )
    answer: dict[str, object] = response.raise_for_status().json()
    return answer
