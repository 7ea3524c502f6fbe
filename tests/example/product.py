"""The whole example as processes, for tests that watch it from outside."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx2

from django_example.demo.processes import household, listening_socket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from django_example.demo.processes import Household
    from tests.example.conftest import Sender
    from tests.support.databases import TestDatabase

# Short, so that a dead holder's delivery is soon another's.
LEASE = {"WEBHOOK_LEASE_TTL": "2", "WEBHOOK_LEASE_HEARTBEAT": "0.6"}


@dataclass(frozen=True)
class Product:
    """The running example.

    Attributes:
        children: Its processes; a worker is started by the test.
        base: URL of its web server.
    """

    children: Household
    base: str

    def get(self, path: str) -> httpx2.Response:
        return httpx2.get(f"{self.base}{path}", timeout=30, trust_env=False)

    def post(self, sender: Sender, body: bytes) -> str:
        """Posts an event, which must be new, and returns its job's id."""
        url = f"{self.base}/webhooks/{sender.slug}/"
        headers = {"Webhook-Signature": sender.sign(body)}
        answer = httpx2.post(url, content=body, headers=headers, timeout=30, trust_env=False)
        assert answer.status_code == 202, answer.text
        job_id: str = answer.json()["jobId"]
        return job_id


@contextmanager
def running_product(folder: Path, database: TestDatabase, broker: str) -> Iterator[Product]:
    """Runs the web server."""
    names = {"DATABASE_URL": database.url, "BROKER_URL": broker, **LEASE}
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "django_example.settings", **names}
    with household(folder, environment) as children, listening_socket() as listening:
        children.start_web(listening)
        try:
            yield Product(children, f"http://127.0.0.1:{listening.getsockname()[1]}")
        finally:
            # Nobody waits here for a warm shutdown.
            children.kill()
