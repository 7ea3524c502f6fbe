"""Publishes stored messages: hints that a job may be runnable."""

from __future__ import annotations

import logging
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kombu.exceptions import OperationalError

from celery_lease.message import Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from celery import Celery
    from kombu import Connection, Producer

    from celery_lease.job import Due

logger = logging.getLogger(__name__)

#: Holds a random word on a Redis broker for as long as that keeps its data.
EPOCH_KEY = "celery-lease:epoch"

#: Types of exchanges that bring a message to queues by routes; the first one will do for a hint.
_ROUTED = ("direct", "topic")

_ONE_TRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}


@dataclass
class Sent:
    """What left, and the broker's epoch as it was just before; empty if it keeps none."""

    task_ids: list[str] = field(default_factory=list)
    epoch: str = ""


class Publisher:
    """Sends messages through an app's broker.

    Args:
        app: Whose broker and queues are used.
        own_connection: Keep a connection to itself, as a native thread must under gevent;
            otherwise producers come from the app's pool.
    """

    def __init__(self, app: Celery, *, own_connection: bool = False) -> None:
        self._app = app
        self._own = own_connection
        self._connection: Connection | None = None

    def publish(self, messages: Sequence[Due], producer: Producer | None = None) -> Sent:
        """Send messages.

        Errors are logged, never raised: what did not leave stays due in the store.
        A broken connection ends the batch, a message that cannot be sent does not.
        """
        sent = Sent()
        try:
            with self._producer(producer) as sending:
                sent.epoch = _epoch(sending)
                self._declare_replies(sending)
                sent.task_ids.extend(due.task_id for due in messages if self._left(sending, due))
        except Exception as refused:  # noqa: BLE001 - any transport's error means: not sent
            self._drop()
            logger.warning(
                "%d of %d messages could not be published, the sweeper will: %r",
                len(messages) - len(sent.task_ids),
                len(messages),
                refused,
            )
        return sent

    def _declare_replies(self, producer: Producer) -> None:
        """Results that come by message need a queue before their task is sent.

        Other backends can be asked at any time later, and may be down now.
        """
        backend = self._app.backend
        if not self._own and hasattr(type(backend), "binding"):
            backend.on_task_call(producer, "")

    def _left(self, producer: Producer, due: Due) -> bool:
        broken = (*producer.connection.connection_errors, *producer.connection.channel_errors)
        try:
            self._send(producer, Message.loads(due.message), due.body, due.attempts)
        except (*broken, OperationalError):
            raise
        except Exception:
            # Its queue may be gone from the settings; those behind it must not wait for it.
            logger.exception("message of %s cannot be published", due.task_id)
            return False
        return True

    def epoch(self) -> str:
        """The broker's epoch now; empty if it keeps none or does not answer."""
        try:
            with self._producer(None) as sending:
                return _epoch(sending)
        except Exception as refused:  # noqa: BLE001 - any transport's error means: not known
            self._drop()
            logger.debug("broker epoch is not known: %r", refused)
            return ""

    def hint_later(self, message: Message, body: bytes, seconds: float) -> None:
        """Send a message that a worker holds back for so long; for when the store is down.

        Raises:
            Exception: Whatever the transport raises, since nobody else would send it.
        """
        at = datetime.now(UTC) + timedelta(seconds=seconds)
        delayed = Message(
            **{**vars(message), "headers": {**message.headers, "eta": at.isoformat()}}
        )
        with self._producer(None) as sending:
            self._send(sending, delayed, body, message.headers.get("retries") or 0)

    def announce(self, event: dict[str, Any], producer: Producer | None = None) -> None:
        """Send Celery's `task-sent` event."""
        try:
            with self._producer(producer) as sending:
                dispatcher = self._app.amqp._event_dispatcher  # noqa: SLF001 - as `send_task` does
                dispatcher.publish("task-sent", event, sending)
        except Exception as refused:  # noqa: BLE001 - an event is never worth an error
            logger.debug("task-sent was not sent: %r", refused)

    def close(self) -> None:
        """Close the own connection."""
        self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release()

    @contextmanager
    def _producer(self, given: Producer | None) -> Iterator[Producer]:
        if given is not None:
            yield given
        elif self._own:
            if self._connection is None:
                self._connection = self._app.connection_for_write()
            self._connect(self._connection)
            yield self._app.amqp.Producer(self._connection, auto_declare=False)
        else:
            with self._app.producer_pool.acquire(block=True) as pooled:
                self._connect(pooled.connection)
                yield pooled

    def _connect(self, connection: Connection) -> None:
        """Connect under the app's publish policy; kombu's own patience is a hundred tries."""
        conf = self._app.conf
        policy = conf.task_publish_retry_policy if conf.task_publish_retry else _ONE_TRY
        connection.ensure_connection(**{n: v for n, v in policy.items() if n in _ONE_TRY})

    def _send(self, producer: Producer, message: Message, body: bytes, retries: int) -> None:
        conf = self._app.conf
        queue = self._app.amqp.queues[message.queue] if message.queue else None
        exchange, routing_key = message.exchange, message.routing_key
        if queue and _is_redis(producer) and queue.exchange.type in _ROUTED:
            # Routes to queues are data of the broker: kombu drops a message without a word
            # once they are lost, and declares them no second time. A queue needs none.
            exchange, routing_key = "", message.queue
        producer.publish(
            body,
            exchange=exchange,
            routing_key=routing_key,
            declare=[queue] if queue else [],
            headers={**message.headers, "retries": retries},
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            retry=conf.task_publish_retry,
            retry_policy=dict(conf.task_publish_retry_policy or {}),
            **message.properties,
        )


def _is_redis(producer: Producer) -> bool:
    return bool(producer.connection.transport.driver_type == "redis")


def _epoch(producer: Producer) -> str:
    if not _is_redis(producer):
        return ""
    client = producer.connection.default_channel.client
    client.set(EPOCH_KEY, secrets.token_hex(8), nx=True)
    found = client.get(EPOCH_KEY)
    return found.decode() if isinstance(found, bytes) else str(found or "")
