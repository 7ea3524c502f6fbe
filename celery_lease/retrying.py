"""`retry()` of a leased task: a column of the job, not another message."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from celery.exceptions import Retry
from celery.utils.time import maybe_iso8601, maybe_make_aware

from celery_lease.message import HEADER, Message, is_worded, revision, with_arguments
from celery_lease.stores.base import Replacement
from celery_lease.submission import from_request, readable

if TYPE_CHECKING:
    from celery_lease.attempt import Attempt


@dataclass(frozen=True)
class RetryCall:
    """Arguments of one `retry()`."""

    args: Any
    kwargs: Any
    exc: BaseException | None
    eta: Any
    countdown: float | None
    max_retries: int | None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """What a body asked for with `retry()`.

    Attributes:
        delay: Seconds, `None` for the backoff's choice.
        replacement: The message with other arguments, if `retry()` was given any.
    """

    delay: float | None
    replacement: Replacement | None


def retry(attempt: Attempt, call: RetryCall) -> Retry:
    """Note that the body wants a retry.

    Returns:
        The exception that tells Celery.

    Raises:
        BaseException: No attempts are left: `exc`, or `MaxRetriesExceededError`.
        MessageNotSerialisable: The serializer refuses the new arguments.
    """
    if _is_spent(attempt, call):
        attempt.gave_up = _last_word(attempt, call)
        raise attempt.gave_up
    delay = _delay(attempt, call)
    attempt.asked = Asked(delay, _replacement(attempt, call))
    return Retry(exc=call.exc, when=call.eta or delay)


def _is_spent(attempt: Attempt, call: RetryCall) -> bool:
    lease = attempt.lease
    limit = attempt.task.max_retries if call.max_retries is None else call.max_retries
    return lease.attempt >= lease.max_attempts or (limit is not None and lease.attempt > limit)


def _last_word(attempt: Attempt, call: RetryCall) -> BaseException:
    if call.exc is not None:
        return call.exc
    request = attempt.request
    error: BaseException = attempt.task.MaxRetriesExceededError(
        f"Can't retry {attempt.task.name}[{request.id}]: "
        f"{attempt.lease.attempt} of {attempt.lease.max_attempts} attempts are used up",
        task_args=request.args,
        task_kwargs=request.kwargs,
    )
    return error


def _replacement(attempt: Attempt, call: RetryCall) -> Replacement | None:
    is_same = call.args is None and call.kwargs is None and not call.options
    if attempt.job is None or is_same:
        return None
    args = attempt.args if call.args is None else call.args
    kwargs = attempt.kwargs if call.kwargs is None else call.kwargs
    stored = Message.loads(attempt.job.message)
    if call.options:
        message, body = _rerouted(attempt, call, stored, args, kwargs)
    else:
        message, body = with_arguments(stored, attempt.job.body, args, kwargs)
    text = readable(args, kwargs) if attempt.options.store_args else ""
    shown = attempt.job.arguments if is_worded(stored.headers) else text
    return Replacement(message.dumps(), body, shown)


def _rerouted(
    attempt: Attempt, call: RetryCall, stored: Message, args: Any, kwargs: Any
) -> tuple[Message, bytes]:
    """Another queue or priority makes another message, built as for a new submission."""
    built = from_request(attempt.task, attempt.request, args, kwargs, **call.options).built
    own = {**built.message.headers[HEADER], "rev": revision(stored.headers) + 1}
    message = replace(built.message, headers={**built.message.headers, HEADER: own})
    return message, built.body


def _delay(attempt: Attempt, call: RetryCall) -> float | None:
    if call.eta is not None:
        when: datetime = maybe_make_aware(maybe_iso8601(call.eta), attempt.task.app.timezone)
        return max(0.0, (when - datetime.now(UTC)).total_seconds())
    if call.countdown is not None:
        return _seconds(call.countdown)
    default: float | None = attempt.task.default_retry_delay
    return default


def _seconds(countdown: float) -> float:
    if not math.isfinite(countdown):
        raise ValueError(f"countdown={countdown} is no time at which to try again")
    return max(0.0, float(countdown))
