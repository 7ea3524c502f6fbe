"""Receivers that misbehave, on real sockets of this machine."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DRIP_SECONDS = 0.02


class Wire:
    """The server's end of one connection."""

    def __init__(self, connection: socket.socket, closing: threading.Event) -> None:
        self._connection = connection
        self.closing = closing

    def read_request(self) -> bytes:
        """Reads head and body; the body's length must be declared."""
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._connection.recv(65536)
        head, _, body = received.partition(b"\r\n\r\n")
        length = next(
            int(line[15:])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length:")
        )
        while len(body) < length:
            body += self._connection.recv(65536)
        return head + b"\r\n\r\n" + body

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def drip(self, data: bytes) -> None:
        """Sends one byte at a time, each well within any time-out of a single read."""
        for byte in data:
            if self.closing.wait(DRIP_SECONDS):
                return
            self.send(bytes([byte]))

    def hold(self) -> None:
        """Keeps the connection open and says nothing until the test ends."""
        self.closing.wait(30)

    def reset(self) -> None:
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@contextmanager
def serving(behave: Callable[[Wire], None]) -> Iterator[str]:
    """Runs `behave` for each connection, one after another, and yields `host:port`."""
    closing = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_accept, args=(listener, behave, closing), daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            closing.set()
            # A blocked accept() does not see its socket close; a connection wakes it.
            with suppress(OSError), socket.create_connection(listener.getsockname(), 1):
                thread.join(5)


def _accept(
    listener: socket.socket, behave: Callable[[Wire], None], closing: threading.Event
) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            if closing.is_set():
                return
            # The client hangs up on a server that takes too long; that is what is tested.
            with suppress(OSError):
                behave(Wire(connection, closing))
