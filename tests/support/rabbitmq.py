"""Queues of one test on a shared RabbitMQ, managed through AMQP alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from kombu import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator


class RabbitMQ:
    """A broker URL and names that nobody else uses."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._queues: list[str] = []

    def queue(self) -> str:
        """A fresh queue name; the queue and its exchange are deleted when the test ends."""
        name = f"lease-test-{uuid4().hex[:12]}"
        self._queues.append(name)
        return name

    def delete_queues(self) -> None:
        with Connection(self.url) as connection, connection.channel() as channel:
            for name in self._queues:
                channel.queue_delete(name)
                channel.exchange_delete(name)


@contextmanager
def own_rabbitmq_queues(url: str) -> Iterator[RabbitMQ]:
    rabbitmq = RabbitMQ(url)
    try:
        yield rabbitmq
    finally:
        rabbitmq.delete_queues()
