"""One POST, from a URL to an ``Exchange``."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpcore2
import httpx2

from django_example.webhooks.exchange import Exchange, Failure
from django_example.webhooks.outgoing.addresses import Network, UnsafeDestination
from django_example.webhooks.outgoing.clock import Deadline
from django_example.webhooks.outgoing.network import GuardedNetwork, NameNotResolved, TlsRefused

BODY_CAP = 65_536

# The first class that fits decides, so the special ones come first.
FAILURES: Mapping[type[Exception], Failure] = {
    UnsafeDestination: Failure.UNSAFE,
    httpx2.InvalidURL: Failure.INVALID_URL,
    httpcore2.UnsupportedProtocol: Failure.INVALID_URL,
    NameNotResolved: Failure.DNS,
    TlsRefused: Failure.TLS,
    httpcore2.ConnectError: Failure.CONNECT,
    httpcore2.TimeoutException: Failure.TIMEOUT,
    httpcore2.NetworkError: Failure.BROKEN,
    httpcore2.RemoteProtocolError: Failure.PROTOCOL,
}


@dataclass
class _Answer:
    """The part of an exchange that is read from the wire, as far as it got."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    answered_ms: int | None = None
    failure: Failure | None = None

    def read(self, response: httpcore2.Response, clock: Deadline) -> None:
        self.status = response.status
        self.headers = {_text(name).lower(): _text(value) for name, value in response.headers}
        self.answered_ms = clock.elapsed_ms()
        for part in response.iter_stream():
            self.body = (self.body + part)[:BODY_CAP]
            if len(self.body) == BODY_CAP:
                break


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    networks: Sequence[Network],
    deadline: float,
) -> Exchange:
    """Send ``body`` and return what came of it; network trouble is part of the result.

    Redirects are not followed, proxies of the environment not used, the answer
    not decompressed and not read beyond 64 kB.

    Args:
        url: Where to, ``http`` or ``https``.
        body: The bytes to send.
        headers: Headers besides those that HTTP itself needs, ASCII only.
        networks: The networks that may be reached.
        deadline: Seconds for all of it: names, connection, TLS, sending, the whole answer.
    """
    clock = Deadline(deadline)
    network = GuardedNetwork(networks, clock)
    answer = _Answer()
    try:
        with _sent(network, url, body, headers) as response:
            answer.read(response, clock)
    except tuple(FAILURES) as error:
        answer.failure = _failure(error)
    return Exchange(
        **vars(answer),
        address=network.address,
        connected_ms=network.connected_ms,
        total_ms=clock.elapsed_ms(),
    )


@contextmanager
def _sent(
    network: GuardedNetwork, url: str, body: bytes, headers: Mapping[str, str]
) -> Iterator[httpcore2.Response]:
    head: list[tuple[bytes | str, bytes | str]] = [
        *headers.items(),
        ("Accept-Encoding", "identity"),
    ]
    with (
        httpcore2.ConnectionPool(network_backend=network) as pool,
        pool.stream("POST", _parsed(url), headers=head, content=body) as response,
    ):
        yield response


def _parsed(url: str) -> httpcore2.URL:
    parsed = httpx2.URL(url)
    return httpcore2.URL(
        scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path
    )


def _failure(error: Exception) -> Failure:
    return next(failure for kind, failure in FAILURES.items() if isinstance(error, kind))


def _text(raw: bytes) -> str:
    return raw.decode("latin-1")
