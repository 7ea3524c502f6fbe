"""Deliveries by a real worker to receivers of every kind."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from standardwebhooks.webhooks import Webhook
from stripe import WebhookSignature

from celery_lease.job import State
from django_example.watch.store import job_store
from django_example.webhooks.models import Delivery, DeliveryAttempt, Endpoint
from tests.example.conftest import event
from tests.example.product import Product, running_product
from tests.example.servers import Wire, serving
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from celery_lease.job import Job
    from tests.example.conftest import Sender
    from tests.support.databases import TestDatabase

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"


@pytest.fixture
def product(tmp_path: Path, database: TestDatabase, redis_url: str) -> Iterator[Product]:
    with running_product(tmp_path, database, redis_url) as product:
        yield product


class Recorder:
    """A receiver that keeps what it got and gives its answers in turn, the last one for ever."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)
        self.requests: list[tuple[Mapping[str, str], bytes]] = []

    def __call__(self, wire: Wire) -> None:
        self.note(wire)
        answers = self._answers
        wire.send(answers.pop(0) if len(answers) > 1 else answers[0])

    def note(self, wire: Wire) -> None:
        head, _, body = wire.read_request().partition(b"\r\n\r\n")
        lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:]]
        self.requests.append(({name.lower(): value for name, _, value in lines}, body))


def logged(product: Product) -> list[dict[str, Any]]:
    """The worker's log lines that are JSON; before its logging is set up it greets in text."""
    lines = (product.children.folder / "worker.log").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def answer(status: int, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", "Content-Length: 0", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def ended(job_id: str) -> Job:
    def terminal() -> list[Job]:
        job = job_store().get(job_id)
        return [job] if job and job.terminal else []

    return wait_for(terminal, 40, what=f"end of {job_id}")[0]


def delivered_to(
    receiver: Callable[[Wire], None],
    product: Product,
    sender: Sender,
    endpoint: Endpoint,
    body: bytes,
) -> Job:
    with serving(receiver) as address:
        Endpoint.objects.filter(pk=endpoint.pk).update(url=f"http://{address}/hook")
        product.children.start_worker()
        return ended(product.post(sender, body))


def test_a_delivery_carries_the_bytes_and_everything_to_verify_them(
    product: Product, sender: Sender, endpoint: Endpoint
) -> None:
    body, receiver = event(id="evt:1 ☃"), Recorder(OK)
    job = delivered_to(receiver, product, sender, endpoint, body)
    [(headers, received)] = receiver.requests
    attempt = DeliveryAttempt.objects.get(delivery_id=job.id)
    assert job.state == State.SUCCEEDED
    assert received == body
    assert WebhookSignature.verify_header(
        body.decode(), headers["x-webhook-signature"], sender.secret, tolerance=300
    )
    assert Webhook(sender.secret).verify(body, dict(headers))
    assert headers["content-type"] == "application/json"
    assert (
        headers["idempotency-key"] == f"acme:default:evt%253A1%20%E2%98%83:{endpoint.pk}:delivery"
    )
    assert headers["fencing-token"] == str(attempt.token) == str(job.token)
    assert (attempt.n, attempt.status, attempt.verdict) == (1, 200, "delivered")
    assert (bytes(attempt.answer), attempt.address) == (b"done", "127.0.0.1")
    assert Delivery.objects.get(pk=job.id).delivered_at is not None


def test_a_receiver_that_is_down_is_asked_again_when_it_says(
    product: Product, sender: Sender, endpoint: Endpoint
) -> None:
    receiver = Recorder(answer(503, "Retry-After: 3"), OK)
    job = delivered_to(receiver, product, sender, endpoint, event())
    first, second = DeliveryAttempt.objects.filter(delivery_id=job.id).order_by("n")
    assert job.state == State.SUCCEEDED
    assert [request[0]["idempotency-key"] for request in receiver.requests] == [
        receiver.requests[0][0]["idempotency-key"]
    ] * 2
    assert receiver.requests[0][1] == receiver.requests[1][1]
    assert (first.verdict, first.error_code) == ("retry", "DELIVERY_HTTP_503")
    assert second.token > first.token
    assert first.finished_at is not None
    assert first.next_attempt_at is not None
    assert (second.started_at - first.finished_at).total_seconds() >= 2.9
    lines = [line for line in logged(product) if line.get("job") == job.id]
    assert [line["event"] for line in lines] == [
        "job.started",
        "job.retry_scheduled",
        "job.started",
        "job.succeeded",
    ]
    assert all({"at", "level", "scope"} <= line.keys() for line in lines)
    assert abs((first.next_attempt_at - second.started_at).total_seconds()) < 2


def test_a_receiver_that_is_gone_is_left_alone(
    product: Product, sender: Sender, endpoint: Endpoint
) -> None:
    job = delivered_to(Recorder(answer(410)), product, sender, endpoint, event())
    endpoint.refresh_from_db()
    assert (job.state, job.attempts) == (State.DEAD, 1)
    assert job.failure is not None
    assert job.failure.code == "DELIVERY_HTTP_410"
    assert endpoint.disabled_by == Endpoint.Disabler.AUTOMATIC


@pytest.mark.parametrize(
    ("url", "code"),
    [("http://10.0.0.1/", "UNSAFE_DESTINATION"), ("ftp://127.0.0.1/", "DELIVERY_INVALID_URL")],
)
def test_what_no_repetition_can_help_is_dead_at_once(
    product: Product, sender: Sender, endpoint: Endpoint, url: str, code: str
) -> None:
    Endpoint.objects.filter(pk=endpoint.pk).update(url=url)
    product.children.start_worker()
    job = ended(product.post(sender, event()))
    assert (job.state, job.attempts) == (State.DEAD, 1)
    assert DeliveryAttempt.objects.get(delivery_id=job.id).error_code == code


def test_a_worker_that_dies_after_the_receiver_acted_repeats_itself_under_the_same_key(
    product: Product, sender: Sender, endpoint: Endpoint
) -> None:
    worker = product.children.start_worker()
    acted = threading.Event()
    receiver = Recorder(OK)

    def act_then_see_the_caller_die(wire: Wire) -> None:
        if acted.is_set():
            receiver(wire)
            return
        receiver.note(wire)
        product.children.forget(worker)
        worker.kill()
        acted.set()

    with serving(act_then_see_the_caller_die) as address:
        Endpoint.objects.filter(pk=endpoint.pk).update(url=f"http://{address}/hook")
        job_id = product.post(sender, event())
        assert acted.wait(30)
        product.children.start_worker()
        job = ended(job_id)
    keys = {headers["idempotency-key"] for headers, _ in receiver.requests}
    tokens = [int(headers["fencing-token"]) for headers, _ in receiver.requests]
    lost, made = DeliveryAttempt.objects.filter(delivery_id=job_id).order_by("n")
    assert job.state == State.SUCCEEDED
    assert (len(keys), len(tokens)) == (1, 2)
    assert tokens[0] < tokens[1]
    assert (lost.finished_at, made.verdict) == (None, "delivered")
