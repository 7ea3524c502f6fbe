"""From a task call to what a store and a broker take."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from celery.backends.base import DisabledBackend
from celery.utils.time import maybe_iso8601, maybe_make_aware

from celery_lease import keys
from celery_lease.errors import MessageNotSerialisable
from celery_lease.job import NewJob
from celery_lease.message import HEADER, Built, build, is_worded, to_text, with_ids
from celery_lease.policy import PREFIX, Options, overridden

if TYPE_CHECKING:
    from collections.abc import Mapping

    from celery_lease.task import LeasedTask

#: Followers as `send_task` calls them, and as a request and a message body do.
FOLLOWERS = {"link": "callbacks", "link_error": "errbacks", "chain": "chain", "chord": "chord"}
#: Longest readable copy of arguments that is kept.
ARGUMENTS_LENGTH = 4096


@dataclass(frozen=True)
class Call:
    """Arguments of one `apply_async`, as given."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    task_id: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Prepared:
    """One submission, ready for the store and the broker."""

    new: NewJob
    built: Built
    options: Options


def prepare(task: LeasedTask, call: Call) -> Prepared:
    """Build the job and its message; nothing is sent.

    Raises:
        UnknownOption, ConfigurationError: A `lease_*` option is wrong.
        MessageNotSerialisable: The serializer refuses the arguments.
    """
    sending = dict(call.options)
    own = {name: sending.pop(name) for name in list(sending) if name.startswith(PREFIX)}
    options = overridden(task.lease_options, own)
    delay = _seconds_until(task, sending.pop("eta", None), sending.pop("countdown", None))
    expires_in = _seconds_until(task, *_split(sending.pop("expires", None)))
    for name in FOLLOWERS.keys() & sending.keys():
        sending[name] = with_ids(task.app, sending[name])
    nesting = sending.get("replaced_task_nesting") or 0
    sending["headers"] = {
        **(sending.get("headers") or {}),
        HEADER: _header(own, options, delay or 0.0),
    }
    if sending.get("argsrepr") or sending.get("kwargsrepr"):
        sending["headers"][HEADER]["worded"] = True
    built = build(
        task.app,
        task.name,
        call.args,
        call.kwargs,
        task_id=call.task_id,
        result_cls=task.AsyncResult,
        task_type=task,
        add_to_parent=False,
        **sending,
    )
    new = NewJob(
        id=keys.submission_id(call.task_id, nesting),
        task=task.name,
        message=built.message.dumps(),
        body=built.body,
        fingerprint=_fingerprint(task, call, built.body),
        queue=built.message.routing_key,
        key=keys.render(options.key, "lease_key", task.run, call.args, call.kwargs),
        tenant=keys.render(options.tenant, "lease_tenant", task.run, call.args, call.kwargs) or "",
        arguments=_arguments(call, built) if options.store_args else "",
        max_attempts=options.max_attempts,
        delay=max(0.0, delay or 0.0),
        expires_in=expires_in,
        retention=options.retention,
        key_retention=options.key_retention,
        on_dead=options.on_dead,
        hands_over=_hands_over(task, sending),
        audit=options.audit,
    )
    return Prepared(new, built, options)


def from_request(
    task: LeasedTask, request: Any, args: Any = None, kwargs: Any = None, **changes: Any
) -> Prepared:
    """The submission behind a message that reached a worker, with changes of its options."""
    sending = {
        name: value
        for name, value in request.as_execution_options().items()
        if value is not None and name != "task_id"
    }
    # Its sender may have hidden something in them.
    sending.update(argsrepr=request.argsrepr, kwargsrepr=request.kwargsrepr)
    sending["ignore_result"] = _ignores_result(task, request)
    sending["headers"] = {k: v for k, v in (request.headers or {}).items() if k != HEADER}
    sending.update(_route(request.delivery_info or {}))
    sending.update(overrides_of(request))
    sending.update(changes)
    args = request.args if args is None else args
    kwargs = request.kwargs if kwargs is None else kwargs
    return prepare(task, Call(tuple(args or ()), dict(kwargs or {}), request.id, sending))


def _ignores_result(task: LeasedTask, request: Any) -> bool | None:
    """The message's own word; the class attribute of Celery's request says nothing."""
    own: bool | None = vars(request).get("ignore_result")
    return task.ignore_result if own is None else own


def overrides_of(request: Any) -> dict[str, Any]:
    """The `lease_*` options that the call behind a request had set."""
    changes = own_header(request).get("set") or {}
    return {f"{PREFIX}{name}": value for name, value in changes.items()}


def own_header(request: Any) -> dict[str, Any]:
    """Our header of a delivered message; an eager call carries it among its headers."""
    return vars(request).get(HEADER) or (request.headers or {}).get(HEADER) or {}


def kept_until(request: Any) -> float | None:
    """Until when (epoch seconds) the row of a delivered message is kept.

    `None` for messages that did not come from `LeasedTask.apply_async`.
    """
    keep = own_header(request).get("keep")
    return float(keep) if keep is not None else None


def _route(info: Mapping[str, Any]) -> dict[str, Any]:
    route = {name: info[name] for name in ("priority",) if info.get(name) is not None}
    if info.get("exchange"):
        return {**route, "exchange": info["exchange"], "routing_key": info.get("routing_key")}
    if info.get("routing_key"):
        return {**route, "queue": info["routing_key"]}
    return route


def _header(own: Mapping[str, Any], options: Options, delay: float) -> dict[str, Any]:
    """Rows live at least until `keep`, so a missing one is a fault before and pruned after."""
    header: dict[str, Any] = {"keep": time.time() + max(delay, 0.0) + options.retention}
    if changes := changes_of(own):
        header["set"] = changes
    return header


def changes_of(own: Mapping[str, Any]) -> dict[str, Any]:
    """What a message carries of the `lease_*` options of its call."""
    return {name.removeprefix(PREFIX): v for name, v in own.items() if _is_plain(v)}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _split(expires: Any) -> tuple[Any, Any]:
    is_number = isinstance(expires, int | float)
    return (None, expires) if is_number else (expires, None)


def _seconds_until(task: LeasedTask, at: Any, seconds: Any) -> float | None:
    if seconds is not None:
        return float(seconds)
    if at is None:
        return None
    when: datetime = maybe_make_aware(maybe_iso8601(at), task.app.timezone)
    return (when - datetime.now(UTC)).total_seconds()


def _fingerprint(task: LeasedTask, call: Call, body: bytes) -> str:
    arguments = keys.bound_arguments(task.run, call.args, call.kwargs)
    try:
        canonical = to_text(arguments, sort_keys=True).encode()
    except MessageNotSerialisable:
        # Another serializer than JSON took them; its bytes are the best there is.
        canonical = body
    return hashlib.sha256(canonical).hexdigest()


def _arguments(call: Call, built: Built) -> str:
    headers = built.message.headers
    if is_worded(headers):
        return f"{headers['argsrepr']} {headers['kwargsrepr']}"
    return readable(call.args, call.kwargs)


def readable(args: Any, kwargs: Any) -> str:
    """A copy of the arguments for people, bounded."""
    text = ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])
    return text if len(text) <= ARGUMENTS_LENGTH else text[: ARGUMENTS_LENGTH - 1] + "…"


def _hands_over(task: LeasedTask, sending: Mapping[str, Any]) -> bool:
    if any(sending.get(name) for name in FOLLOWERS):
        return True
    ignored = sending.get("ignore_result")
    return not (task.ignore_result if ignored is None else ignored) and not isinstance(
        task.app.backend, DisabledBackend
    )
