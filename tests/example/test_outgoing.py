"""The HTTP client against receivers that misbehave."""

from __future__ import annotations

import threading
import time
from ipaddress import ip_network
from typing import TYPE_CHECKING

import pytest

from django_example.webhooks.exchange import Exchange, Failure
from django_example.webhooks.outgoing import addresses, network, post
from django_example.webhooks.outgoing.addresses import UnsafeDestination, require_allowed
from django_example.webhooks.outgoing.client import BODY_CAP
from tests.example.servers import Wire, serving

if TYPE_CHECKING:
    from collections.abc import Callable

LOOPBACK = [ip_network("127.0.0.0/8"), ip_network("::1/128")]
ELSEWHERE = [ip_network("10.0.0.0/8")]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
DEADLINE = 0.4
# What a loaded machine may add to a deadline.
SLACK = 0.5


def posted(
    behave: Callable[[Wire], None],
    *,
    body: bytes = b"{}",
    scheme: str = "http",
    deadline: float = 5,
) -> Exchange:
    with serving(behave) as address:
        return post(f"{scheme}://{address}/hook", body, {}, networks=LOOPBACK, deadline=deadline)


def answering(data: bytes) -> Callable[[Wire], None]:
    def behave(wire: Wire) -> None:
        wire.read_request()
        wire.send(data)

    return behave


def timed_out(
    behave: Callable[[Wire], None], *, body: bytes = b"{}", scheme: str = "http"
) -> Exchange:
    start = time.monotonic()
    exchange = posted(behave, body=body, scheme=scheme, deadline=DEADLINE)
    assert exchange.failure == Failure.TIMEOUT
    assert DEADLINE - 0.01 <= time.monotonic() - start < DEADLINE + SLACK
    return exchange


def test_an_answer_is_read_with_its_times() -> None:
    exchange = posted(
        answering(b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 5\r\n\r\nlater")
    )
    assert (exchange.status, exchange.body, exchange.failure) == (503, b"later", None)
    assert exchange.headers["retry-after"] == "7"
    assert exchange.address == "127.0.0.1"
    assert exchange.connected_ms is not None
    assert exchange.answered_ms is not None
    assert exchange.connected_ms <= exchange.answered_ms <= exchange.total_ms


def test_the_bytes_and_headers_arrive_as_they_were_given() -> None:
    requests = []

    def behave(wire: Wire) -> None:
        requests.append(wire.read_request())
        wire.send(OK)

    body = bytes(range(256)) * 500
    with serving(behave) as address:
        port = address.rpartition(":")[2]
        url = f"http://localhost:{port}/a%20b?c=d"
        post(url, body, {"Idempotency-Key": "a:b"}, networks=LOOPBACK, deadline=5)
    head, _, received = requests[0].partition(b"\r\n\r\n")
    assert received == body
    assert head.startswith(b"POST /a%20b?c=d HTTP/1.1\r\n")
    assert f"host: localhost:{port}".encode() in head.lower()
    assert b"accept-encoding: identity" in head.lower()
    assert b"Idempotency-Key: a:b" in head


def test_a_dripping_head_ends_at_the_deadline() -> None:
    assert (
        timed_out(lambda wire: wire.drip(b"HTTP/1.1 200 OK\r\nX-Padding: " + b"x" * 5000)).status
        is None
    )


def test_a_dripping_body_ends_at_the_deadline() -> None:
    def behave(wire: Wire) -> None:
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
        wire.drip(b"x" * 5000)

    exchange = timed_out(behave)
    assert exchange.status == 200
    assert 0 < len(exchange.body) < 100


def test_endless_interim_answers_end_at_the_deadline() -> None:
    def behave(wire: Wire) -> None:
        while not wire.closing.wait(0.02):
            wire.send(b"HTTP/1.1 102 Processing\r\n\r\n")

    assert timed_out(behave).status is None


def test_silence_ends_at_the_deadline() -> None:
    timed_out(Wire.hold)


def test_silence_instead_of_tls_ends_at_the_deadline() -> None:
    timed_out(Wire.hold, scheme="https")


def test_a_receiver_that_does_not_read_ends_at_the_deadline() -> None:
    timed_out(Wire.hold, body=b"x" * 30_000_000)


def test_a_resolver_that_does_not_answer_ends_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The one thing that cannot be made real here: a name server that is silent.
    release = threading.Event()
    monkeypatch.setattr(addresses.socket, "getaddrinfo", lambda *_, **__: release.wait(30) and [])
    exchange = post("http://slow.example/", b"", {}, networks=LOOPBACK, deadline=0.2)
    release.set()
    assert exchange.failure == Failure.TIMEOUT


def test_a_connection_that_is_reset_is_broken() -> None:
    def behave(wire: Wire) -> None:
        wire.read_request()
        wire.reset()

    assert posted(behave).failure == Failure.BROKEN


@pytest.mark.parametrize(
    "data", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"]
)
def test_an_answer_that_is_no_http_is_a_protocol_failure(data: bytes) -> None:
    assert posted(answering(data)).failure == Failure.PROTOCOL


def test_nobody_listening_is_a_failed_connection() -> None:
    with serving(Wire.hold) as address:
        pass
    assert (
        post(f"http://{address}/", b"", {}, networks=LOOPBACK, deadline=5).failure
        == Failure.CONNECT
    )


def test_no_tls_where_tls_is_expected() -> None:
    assert posted(lambda wire: wire.send(OK), scheme="https").failure == Failure.TLS


def test_a_name_that_does_not_exist() -> None:
    exchange = post("http://nothing.invalid/", b"", {}, networks=LOOPBACK, deadline=20)
    assert exchange.failure == Failure.DNS


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/", "nonsense", "", "http://", "http://a..b:99999/", "http://[::1/"]
)
def test_what_is_no_url_is_said_to_be_none(url: str) -> None:
    exchange = post(url, b"", {}, networks=LOOPBACK, deadline=5)
    assert exchange.failure in {Failure.INVALID_URL, Failure.DNS}


def test_a_redirect_is_not_followed() -> None:
    followed = threading.Event()
    with serving(lambda _: followed.set()) as target:
        head = f"HTTP/1.1 302 Found\r\nLocation: http://{target}/\r\nContent-Length: 0\r\n\r\n"
        exchange = posted(answering(head.encode()))
    assert exchange.status == 302
    assert not followed.is_set()


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    used = threading.Event()
    with serving(lambda _: used.set()) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://{proxy}")
        assert posted(answering(OK)).status == 200
    assert not used.is_set()


def test_a_bomb_is_neither_inflated_nor_read_beyond_the_cap() -> None:
    def behave(wire: Wire) -> None:
        wire.read_request()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 50000000\r\n\r\n")
        while not wire.closing.is_set():
            wire.send(b"\x1f\x8b" * 30_000)

    exchange = posted(behave)
    assert (exchange.status, exchange.failure) == (200, None)
    assert exchange.body == b"\x1f\x8b" * (BODY_CAP // 2)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "0177.0.0.1", "2130706433", "localhost", "[::1]", "[::ffff:127.0.0.1]"],
)
def test_what_is_not_allowed_is_not_dialled_however_it_is_written(host: str) -> None:
    dialled = threading.Event()
    with serving(lambda _: dialled.set()) as address:
        url = f"http://{host}:{address.rpartition(':')[2]}/"
        exchange = post(url, b"", {}, networks=ELSEWHERE, deadline=5)
    assert exchange.failure in {Failure.UNSAFE, Failure.INVALID_URL}
    assert exchange.address == ""
    assert not dialled.is_set()


def test_one_address_outside_is_enough_to_refuse_a_host() -> None:
    require_allowed(["127.0.0.1", "::1", "::ffff:127.0.0.1"], LOOPBACK)
    for outside in ("10.0.0.1", "::ffff:10.0.0.1", "fe80::1%lo", "::"):
        with pytest.raises(UnsafeDestination):
            require_allowed(["127.0.0.1", outside], LOOPBACK)


def test_the_next_address_is_tried_when_one_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def behave(wire: Wire) -> None:
        wire.read_request()
        wire.send(OK)

    with serving(behave) as address:
        port = int(address.rpartition(":")[2])
        monkeypatch.setattr(network, "resolve", lambda *_: ["127.0.0.2", "127.0.0.1"])
        exchange = post(f"http://two.example:{port}/", b"", {}, networks=LOOPBACK, deadline=5)
    assert (exchange.status, exchange.address) == (200, "127.0.0.1")
