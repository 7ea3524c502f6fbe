"""The sockets under a POST: checked addresses, and every wait cut to the one deadline."""

import ssl
from collections.abc import Iterable, Sequence
from typing import Any

import httpcore2

from django_example.webhooks.outgoing.addresses import Network, require_allowed, resolve
from django_example.webhooks.outgoing.clock import Deadline

# A chunk that fits any socket's send buffer leaves in one wait, so a receiver
# that reads drop by drop cannot stretch a write beyond the deadline.
WRITE_CHUNK = 4096


class NameNotResolved(httpcore2.ConnectError):
    """The host's name has no address, or the resolver did not answer well."""


class TlsRefused(httpcore2.ConnectError):
    """The TLS handshake failed: wrong name, unknown issuer, no common version."""


class DeadlineStream(httpcore2.NetworkStream):
    """A connection on which no sequence of waits outlasts the deadline."""

    def __init__(self, stream: httpcore2.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what is there, waiting for it until the deadline at most."""
        return self._stream.read(max_bytes, _cap(self._deadline, timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all of ``buffer``, in chunks that each look at the clock."""
        for start in range(0, len(buffer), WRITE_CHUNK):
            chunk = buffer[start : start + WRITE_CHUNK]
            self._stream.write(chunk, _cap(self._deadline, timeout, httpcore2.WriteTimeout))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        """Return the connection inside TLS, with the certificate checked for the host's name."""
        remaining = _cap(self._deadline, timeout, httpcore2.ConnectTimeout)
        try:
            inner = self._stream.start_tls(ssl_context, server_hostname, remaining)
        except httpcore2.ConnectError as error:
            raise TlsRefused(error) from error
        return DeadlineStream(inner, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        """Return what the connection below knows."""
        return self._stream.get_extra_info(info)


class GuardedNetwork(httpcore2.NetworkBackend):
    """Dials only addresses that were checked, each of which was resolved once.

    Args:
        networks: The networks that may be reached.
        deadline: The end of all waiting.

    Attributes:
        address: The address that was dialled last.
        connected_ms: Milliseconds until its connection stood.
    """

    def __init__(self, networks: Sequence[Network], deadline: Deadline) -> None:
        self._networks = networks
        self._deadline = deadline
        self._sockets = httpcore2.SyncBackend()
        self.address = ""
        self.connected_ms: int | None = None

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - the base class has it
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,  # noqa: ARG002 - likewise
    ) -> httpcore2.NetworkStream:
        """Connect to the first address of ``host`` that answers.

        Raises:
            UnsafeDestination: If any address is outside the allowed networks.
            NameNotResolved: If there is no address.
            httpcore2.ConnectError: If no address answers; the last one's error.
            httpcore2.ConnectTimeout: If the last one did not answer in time.
        """
        addresses = self._resolve(host, port)
        require_allowed(addresses, self._networks)
        return self._first_answering(addresses, port, timeout)

    def _resolve(self, host: str, port: int) -> list[str]:
        remaining = _cap(self._deadline, None, httpcore2.ConnectTimeout)
        try:
            return resolve(host, port, remaining)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(error) from error
        except OSError as error:
            raise NameNotResolved(error) from error

    def _first_answering(
        self, addresses: Sequence[str], port: int, timeout: float | None
    ) -> DeadlineStream:
        failed: httpcore2.ConnectError | httpcore2.ConnectTimeout = NameNotResolved("no address")
        for left, self.address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                return self._dial(port, timeout, left)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
        raise failed

    def _dial(self, port: int, timeout: float | None, share: int) -> DeadlineStream:
        # One silent address must not use up the time of those after it.
        remaining = _cap(self._deadline, timeout, httpcore2.ConnectTimeout) / share
        stream = self._sockets.connect_tcp(self.address, port, remaining, socket_options=())
        self.connected_ms = self._deadline.elapsed_ms()
        return DeadlineStream(stream, self._deadline)


def _cap(
    deadline: Deadline, timeout: float | None, late: type[httpcore2.TimeoutException]
) -> float:
    try:
        return deadline.cap(timeout)
    except TimeoutError as error:
        raise late(error) from error
