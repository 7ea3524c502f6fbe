"""The whole message of a submission, so that any process can publish it again."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from celery.canvas import Signature, maybe_signature
from celery.exceptions import AlwaysEagerIgnored
from celery.utils.saferepr import saferepr
from kombu import Exchange, Producer, compression, serialization
from kombu.exceptions import EncodeError, SerializationError
from kombu.utils import json

from celery_lease.errors import MessageNotSerialisable

if TYPE_CHECKING:
    from celery import Celery

HEADER = "lease"
#: Longest `argsrepr` of a header, as Celery's own.
REPR_LENGTH = 1024
#: What `Producer.publish` takes that belongs to one publishing, not to the message.
_PER_PUBLISH = ("retry", "retry_policy", "timeout", "confirm_timeout", "compression")


@dataclass(frozen=True)
class Message:
    """Arguments of `Producer.publish`, apart from the body.

    Attributes:
        headers: Celery's headers with ours.
        properties: Everything else that `publish` takes: priority, reply_to, …
        queue: Name of the queue to declare before publishing, if known.
    """

    headers: dict[str, Any]
    properties: dict[str, Any]
    exchange: str
    routing_key: str
    queue: str
    content_type: str
    content_encoding: str

    def dumps(self) -> str:
        """The message as JSON text."""
        return str(json.dumps(asdict(self)))

    @classmethod
    def loads(cls, text: str) -> Message:
        """Read what `dumps` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Built:
    """A message, its body, and Celery's `task-sent` event if it is switched on."""

    message: Message
    body: bytes
    sent_event: dict[str, Any] | None
    result: Any


class _NoConnection:
    """Stands where a producer's connection is asked to translate errors."""

    @contextmanager
    def _reraise_as_library_errors(self) -> Iterator[None]:
        yield


class _Recorder(Producer):
    """A producer that keeps what Celery would publish.

    Args:
        app: The app.
        ignore_result: What the message shall say of it.
    """

    def __init__(self, app: Celery, ignore_result: bool | None) -> None:  # noqa: FBT001 - Celery's word
        super().__init__(None, serializer=app.conf.task_serializer, auto_declare=False)
        self._ignore_result = ignore_result
        self.recorded: tuple[bytes, dict[str, Any]] | None = None

    @property
    def connection(self) -> _NoConnection:
        return _NoConnection()

    def publish(self, body: Any, **options: Any) -> None:
        headers = dict(options.pop("headers", None) or {})
        if "ignore_result" in headers:
            headers["ignore_result"] = self._ignore_result
        serializer, compression = options.pop("serializer", None), options.get("compression")
        try:
            data, content_type, encoding = self._prepare(
                body, serializer, None, None, compression, headers
            )
        except (EncodeError, SerializationError, TypeError, ValueError, RecursionError) as refused:
            message = f"arguments of {headers.get('task')}: {refused}"
            raise MessageNotSerialisable(message) from refused
        raw = data if isinstance(data, bytes) else data.encode(encoding)
        parts = {"headers": headers, "content_type": content_type, "content_encoding": encoding}
        self.recorded = (raw, {**options, **parts})


class _SentEvent:
    """Takes the `task-sent` event that Celery sends right after publishing."""

    def __init__(self) -> None:
        self.event: dict[str, Any] | None = None

    def publish(self, _type: str, event: dict[str, Any], _producer: Any, **_options: Any) -> None:
        self.event = event


def build(app: Celery, name: str, args: Any, kwargs: Any, **options: Any) -> Built:
    """The message Celery would send for these arguments of `send_task`.

    Raises:
        MessageNotSerialisable: The serializer refuses the arguments.
    """
    ignore_result = options.get("ignore_result")
    recorder, event = _Recorder(app, ignore_result), _SentEvent()
    with _no_eager_warning(app):
        result = app.send_task(
            name,
            args,
            kwargs,
            producer=recorder,
            event_dispatcher=event,
            # Recording needs no second try, and Celery would ask for a real connection. It would
            # also make the result backend listen, and so nothing is recorded while that is down.
            **{**options, "retry": False, "ignore_result": True},
        )
    result.ignored = bool(ignore_result)
    raw, parts = recorder.recorded or (b"", {})
    return Built(_message(parts), raw, event.event, result)


@contextmanager
def _no_eager_warning(app: Celery) -> Iterator[None]:
    """Celery warns that it sends although calls are eager; here nothing is sent."""
    if not app.conf.task_always_eager:
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlwaysEagerIgnored)
        yield


def _message(parts: dict[str, Any]) -> Message:
    declared = parts.pop("declare", None) or []
    for name in _PER_PUBLISH:
        parts.pop(name, None)
    exchange = parts.pop("exchange", None)
    return Message(
        headers=parts.pop("headers"),
        content_type=parts.pop("content_type"),
        content_encoding=parts.pop("content_encoding"),
        exchange=exchange.name if isinstance(exchange, Exchange) else exchange or "",
        routing_key=parts.pop("routing_key", None) or "",
        queue=declared[0].name if declared else "",
        properties={name: value for name, value in parts.items() if value is not None},
    )


def with_ids(app: Celery, followers: Any) -> Any:
    """Copies of followers that have got their task ids.

    A follower handed out twice must be one job, so its id is fixed when the
    leading job is submitted; the caller's own signature is left alone.
    """
    if followers is None:
        return None
    if isinstance(followers, Mapping):
        return _with_id(app, followers)
    if isinstance(followers, Sequence):
        return [_with_id(app, follower) for follower in followers]
    return followers


def _with_id(app: Celery, follower: Mapping[str, Any]) -> Signature[Any]:
    try:
        signature: Signature[Any] = maybe_signature(_copy(follower), app=app)
    except RecursionError as refused:
        raise MessageNotSerialisable("arguments of a follower contain themselves") from refused
    if not signature.options.get("task_id"):
        signature.freeze()
    return signature


def _copy(value: Any) -> Any:
    """A deep copy; signatures of Celery before 5.7 copy themselves shallowly."""
    if isinstance(value, Mapping):
        return {name: _copy(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(one) for one in value]
    return deepcopy(value)


def to_text(value: Any, *, sort_keys: bool = False) -> str:
    """A value as JSON text, in kombu's form that keeps dates, decimals and UUIDs.

    Sorted, equal values have equal texts; keys of several types have no order.

    Raises:
        MessageNotSerialisable: JSON cannot hold it.
    """
    try:
        return str(json.dumps(value, sort_keys=sort_keys))
    except Exception as refused:
        # Whatever an object's own `__json__` raises.
        raise MessageNotSerialisable(repr(refused)) from refused


def from_text(text: str) -> Any:
    """Read what `to_text` wrote."""
    return json.loads(text)


def decoded(message: Message, body: bytes) -> tuple[Any, Any, dict[str, Any]]:
    """Arguments, keyword arguments and followers of a stored message."""
    if name := message.headers.get("compression"):
        body = compression.decompress(body, name)
    args, kwargs, embed = serialization.loads(
        body, message.content_type, message.content_encoding, accept={message.content_type}
    )
    return args, kwargs, embed or {}


def with_arguments(message: Message, body: bytes, args: Any, kwargs: Any) -> tuple[Message, bytes]:
    """The same message with other arguments, its followers kept; its revision grows.

    Raises:
        MessageNotSerialisable: The serializer refuses the arguments.
    """
    _, _, embed = decoded(message, body)
    serializer = serialization.registry.type_to_name[message.content_type]
    try:
        _, _, data = serialization.dumps((args, kwargs, embed), serializer)
    except Exception as refused:
        raise MessageNotSerialisable(f"arguments of a retry: {refused}") from refused
    own = message.headers.get(HEADER) or {}
    headers = {**message.headers, HEADER: {**own, "rev": own.get("rev", 0) + 1}}
    if not is_worded(headers):
        headers["argsrepr"] = saferepr(tuple(args), REPR_LENGTH)
        headers["kwargsrepr"] = saferepr(kwargs, REPR_LENGTH)
    headers.pop("compression", None)
    raw = data if isinstance(data, bytes) else data.encode(message.content_encoding)
    return replace(message, headers=headers), raw


def is_worded(headers: Mapping[str, Any]) -> bool:
    """Whether the caller has said how to show the arguments to people, to hide some perhaps."""
    return bool((headers.get(HEADER) or {}).get("worded"))


def revision(headers: Mapping[str, Any]) -> int:
    """How often `retry(args=…)` has replaced the message's arguments."""
    return int((headers.get(HEADER) or {}).get("rev", 0))
