"""The leased tasks that carry events out."""

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from celery import shared_task
from django.utils import timezone

from celery_lease import Backoff, LeasedTask
from django_example import policy
from django_example.webhooks import signatures
from django_example.webhooks.models import Delivery, Endpoint
from django_example.webhooks.outgoing import post
from django_example.webhooks.verdicts import Verdict, judge

if TYPE_CHECKING:
    from celery_lease.lease import Lease
    from django_example.webhooks.exchange import Exchange

POLICY: dict[str, Any] = {
    "base": LeasedTask,
    "bind": True,
    "lease_key": "{tenant}:{source}:{event_id}:{endpoint}",
    "lease_tenant": "{tenant}",
    "lease_ttl": policy.LEASE_TTL,
    "lease_heartbeat": policy.LEASE_HEARTBEAT,
    "lease_attempt_timeout": policy.ATTEMPT_TIMEOUT,
    "lease_max_attempts": policy.MAX_ATTEMPTS,
}
SECONDS = Backoff(
    base=policy.BACKOFF_BASE,
    factor=2,
    maximum=policy.BACKOFF_MAXIMUM,
    jitter=policy.BACKOFF_JITTER,
)


@shared_task(**POLICY, lease_backoff=SECONDS)
def deliver(self: LeasedTask, tenant: str, source: str, event_id: str, endpoint: int) -> None:
    """Deliver one event to one endpoint, giving up after seconds."""
    send(self.lease, tenant, source, event_id, endpoint)


@shared_task(**POLICY, lease_backoff=Backoff.hours())
def deliver_patiently(
    self: LeasedTask, tenant: str, source: str, event_id: str, endpoint: int
) -> None:
    """Deliver one event to one endpoint, giving up after hours."""
    send(self.lease, tenant, source, event_id, endpoint)


TASKS = {Endpoint.Policy.SECONDS: deliver, Endpoint.Policy.HOURS: deliver_patiently}


def submit(delivery: Delivery) -> None:
    """Make the job of a delivery, in the transaction that makes the delivery."""
    event = delivery.event
    address = {
        "tenant": event.tenant.slug,
        "source": event.source,
        "event_id": event.event_id,
        "endpoint": delivery.endpoint_id,
    }
    task = TASKS[Endpoint.Policy(delivery.endpoint.policy)]
    task.apply_async(kwargs=address, task_id=delivery.job_id)


def send(lease: "Lease", tenant: str, source: str, event_id: str, endpoint: int) -> None:
    """Make one attempt: POST, judge, and record the success under the lease.

    Between the receiver's 2xx and the commit the worker may die, so the wire
    sees an event at least once. The receiver sees it once through the
    ``Idempotency-Key``, which is the same in every attempt.

    Raises:
        RetryableError: If another attempt may help.
        PermanentError: If none will.
    """
    delivery = Delivery.objects.addressed(tenant, source, event_id, endpoint)
    attempt = delivery.begin_attempt(lease.attempt, lease.token, lease.owner)
    exchange = exchange_for(delivery, lease)
    verdict = verdict_on(exchange, delivery.endpoint)
    attempt.finish(exchange, verdict)
    if verdict.gone:
        delivery.endpoint.disable(Endpoint.Disabler.AUTOMATIC, "answered 410 Gone")
    verdict.raise_for_failure()
    with lease.commit() as done:
        delivery.mark_delivered()
        done.result = {"status": exchange.status}


def exchange_for(delivery: Delivery, lease: "Lease") -> "Exchange":
    """POST the event's bytes to its endpoint."""
    body = bytes(delivery.event.body)
    return post(
        delivery.endpoint.url,
        body,
        headers_for(delivery, lease, body),
        networks=policy.ALLOWED_NETWORKS,
        deadline=policy.HTTP_DEADLINE,
    )


def headers_for(delivery: Delivery, lease: "Lease", body: bytes) -> dict[str, str]:
    """Return the headers of one attempt: what identifies the operation, and fresh signatures."""
    now = int(time.time())
    secrets = delivery.event.tenant.active_secrets()
    return {
        "content-type": "application/json",
        # A key may have any characters, a header may not.
        "Idempotency-Key": quote(f"{lease.key}:delivery", safe=PLAIN),
        "Fencing-Token": str(lease.token),
        signatures.OUTGOING_HEADER: signatures.sign(secrets, now, body),
        **signatures.standard_headers(secrets, delivery.message_id, now, body),
    }


# All of visible ASCII but the sign that marks an escape.
PLAIN = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")


def verdict_on(exchange: "Exchange", endpoint: Endpoint) -> Verdict:
    """Judge an exchange by the endpoint's choices."""
    return judge(
        exchange,
        retry_client_errors=endpoint.retry_client_errors,
        retry_after_maximum=policy.RETRY_AFTER_MAXIMUM,
        now=timezone.now(),
    )
