"""The ingest behind the web server that the demo uses, over real sockets."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx2
import pytest

from django_example.demo.processes import household, listening_socket
from django_example.webhooks.models import Delivery, Event
from tests.example.conftest import event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.example.conftest import Sender
    from tests.support.databases import TestDatabase

pytestmark = pytest.mark.usefixtures("endpoint")


@pytest.fixture
def web(database: TestDatabase, redis_url: str, tmp_path: Path) -> Iterator[tuple[str, int]]:
    names = {"DATABASE_URL": database.url, "BROKER_URL": redis_url}
    settings = {"DJANGO_SETTINGS_MODULE": "django_example.settings"}
    environment = {**os.environ, **names, **settings}
    with household(tmp_path, environment) as children, listening_socket() as listening:
        children.start_web(listening)
        address: tuple[str, int] = listening.getsockname()
        yield address
        children.require_alive()


def spoken(address: tuple[str, int], request: bytes) -> bytes:
    """The answer to raw bytes, after which nothing more is sent."""
    with socket.create_connection(address, 20) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return connection.makefile("rb").read()


def test_parallel_posts_of_one_event_over_the_network(web: tuple[str, int], sender: Sender) -> None:
    body = event()
    headers = {"Webhook-Signature": sender.sign(body)}
    url = f"http://127.0.0.1:{web[1]}/webhooks/{sender.slug}/"
    with httpx2.Client(timeout=30, trust_env=False) as client, ThreadPoolExecutor(20) as pool:
        posts = [pool.submit(client.post, url, content=body, headers=headers) for _ in range(20)]
        answers = sorted(post.result().status_code for post in posts)
    assert answers == [200] * 19 + [202]
    assert (Event.objects.count(), Delivery.objects.count()) == (1, 1)


HOSTILE = [
    (b"Content-Length: 99999999999999999999", b"{}"),
    (b"Content-Length: -1", b"{}"),
    (b"Content-Length: abc", b"{}"),
    (b"Content-Length: 500", b"{}"),
    (b"Transfer-Encoding: chunked", b"2\r\n{}\r\n0\r\n\r\n"),
    (b"Transfer-Encoding: chunked", b"zz\r\n"),
    (b"X: y", b""),
    (b"Webhook-Signature: t=1\r\nWebhook-Signature: \xff\xc3", b""),
    (b"Content-Length: 600000", b"x" * 600_000),
]


def test_no_bytes_on_the_wire_cause_a_server_error(web: tuple[str, int], sender: Sender) -> None:
    head = f"POST /webhooks/{sender.slug}/ HTTP/1.1\r\nHost: localhost\r\n".encode()
    for header, body in HOSTILE:
        answer = spoken(web, head + header + b"\r\n\r\n" + body)
        assert answer.startswith(b"HTTP/1.1 4"), (header, answer)
