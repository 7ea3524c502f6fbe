"""A TCP proxy before a server, which a test closes, freezes and opens again."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 65536


class Proxy:
    """Forwards connections to the server of a URL.

    Attributes:
        url: The server's URL by way of the proxy.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = unquote(parts.hostname or ""), parts.port or 5432
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]
        host = f"127.0.0.1:{self._port}"
        user, at, _ = parts.netloc.rpartition("@")
        self.url = parts._replace(netloc=f"{user}{at}{host}").geturl()
        self._flows = threading.Event()
        self._flows.set()
        self._open: set[socket.socket] = set()
        self._start(self._listener)

    def close(self) -> None:
        """The server is down: connections end, new ones are refused."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._open):
            _end(one)

    def open(self) -> None:
        """The server is back."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        self._start(self._listener)

    def freeze(self) -> None:
        """The network is dead: connections stay, nothing comes through."""
        self._flows.clear()

    def thaw(self) -> None:
        """Everything that waited comes through."""
        self._flows.set()

    def _start(self, listener: socket.socket) -> None:
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, self._connected() as server:
            pair = {client: server, server: client}
            self._open |= pair.keys()
            try:
                self._forward(pair)
            finally:
                self._open -= pair.keys()

    def _connected(self) -> socket.socket:
        host, port = self._target
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _forward(self, pair: dict[socket.socket, socket.socket]) -> None:
        while True:
            readable, _, _ = select.select(list(pair), [], [])
            for one in readable:
                data = one.recv(CHUNK)
                self._flows.wait()
                if not data:
                    return
                pair[one].sendall(data)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """A proxy before the server of `url`."""
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.thaw()
        proxy.close()
