"""The `lease_*` options of a task: their names, defaults, sources and checks."""

from __future__ import annotations

import difflib
import math
import random
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeGuard

from celery_lease.errors import ConfigurationError, UnknownOption
from celery_lease.job import Failure

DAY = 86400.0


# -- checks of values: first, because the default options are checked too --------


def _require(holds: bool, name: str, valid: str) -> None:  # noqa: FBT001 - reads as an assertion
    if not holds:
        raise ConfigurationError(f"{name} must be {valid}")


def _is_positive(value: object) -> TypeGuard[float]:
    # Infinity is no date in a database and no number in JSON.
    return isinstance(value, int | float) and value is not True and 0 < value < math.inf


def _is_count(value: object) -> bool:
    return isinstance(value, int) and _is_positive(value)


def _is_backoff(value: object) -> bool:
    steps = value if isinstance(value, list | tuple) else ()
    return isinstance(value, Backoff) or (bool(steps) and all(_is_seconds(s) for s in steps))


def _is_seconds(value: object) -> bool:
    return _is_positive(value) or (value == 0 and value is not False)


def _is_exceptions(value: object) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(kind, type) and issubclass(kind, BaseException) for kind in value
    )


@dataclass(frozen=True)
class Backoff:
    """Waiting times between attempts: base * factor ** n up to a maximum, spread by a jitter.

    Attributes:
        base: Seconds before the second attempt.
        factor: Growth per attempt.
        maximum: Seconds, applied before the jitter.
        jitter: Share by which a wait is spread both ways, 0 to 1.
        steps: Explicit waits in seconds; the last one repeats.
    """

    base: float = 1.0
    factor: float = 2.0
    maximum: float = 60.0
    jitter: float = 0.2
    steps: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse waits that are none.

        Raises:
            ConfigurationError: Names the argument and what is valid.
        """
        for name in ("base", "factor", "maximum"):
            _require(_is_seconds(getattr(self, name)), f"{name} of a Backoff", "0 or more")
        _require(
            _is_seconds(self.jitter) and self.jitter <= 1, "jitter of a Backoff", "from 0 to 1"
        )
        valid = isinstance(self.steps, tuple) and all(_is_seconds(step) for step in self.steps)
        _require(valid, "steps of a Backoff", "a tuple of seconds")

    @classmethod
    def hours(cls) -> Backoff:
        """Gives a receiver that is down most of a day: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h."""
        return cls(steps=(5, 300, 1800, 7200, 18000, 36000))

    def delay(self, attempt: int) -> float:
        """Seconds to wait after the attempt of that number (from 1)."""
        wait = self._step(attempt) if self.steps else self._power(attempt)
        return wait * (1 + random.uniform(-self.jitter, self.jitter))  # noqa: S311 - no secret

    def _step(self, attempt: int) -> float:
        return self.steps[min(attempt, len(self.steps)) - 1]

    def _power(self, attempt: int) -> float:
        # Past 2**64 every factor has met its maximum, and floats overflow later on.
        return float(min(self.base * self.factor ** min(attempt - 1, 64), self.maximum))


Template = str | Callable[..., str] | None


@dataclass(frozen=True)
class Options:
    """All `lease_*` options that concern one task, without their prefix; durations in seconds."""

    store: str | None = None
    ttl: float = 15.0
    heartbeat: float = 5.0
    attempt_timeout: float | None = None
    max_attempts: int = 6
    backoff: Backoff | Sequence[float] = Backoff()
    retry_on: tuple[type[BaseException], ...] = (Exception,)
    give_up_on: tuple[type[BaseException], ...] = ()
    key: Template = None
    tenant: Template = None
    on_dead: str = "keep"
    retention: float = 7 * DAY
    key_retention: float = 30 * DAY
    sweep_interval: float = 1.0
    republish_after: float = 900.0
    audit: str = "transitions"
    store_args: bool = True

    def __post_init__(self) -> None:
        """Refuse values that cannot work.

        Raises:
            ConfigurationError: Names the option and what is valid.
        """
        self._check_durations()
        _require(_is_count(self.max_attempts), "lease_max_attempts", "1 or more")
        _require(isinstance(self.store_args, bool), "lease_store_args", "True or False")
        _require(_is_backoff(self.backoff), "lease_backoff", "a Backoff or a list of seconds")
        for name in ("key", "tenant"):
            given = getattr(self, name)
            valid = given is None or isinstance(given, str) or callable(given)
            _require(valid, f"lease_{name}", "a template, a callable or None")
        _require(self.on_dead in ("keep", "replay"), "lease_on_dead", '"keep" or "replay"')
        audits = ("transitions", "all", "off")
        _require(self.audit in audits, "lease_audit", '"transitions", "all" or "off"')
        for name in ("retry_on", "give_up_on"):
            _require(_is_exceptions(getattr(self, name)), f"lease_{name}", "a tuple of exceptions")

    def _check_durations(self) -> None:
        for name in ("ttl", "heartbeat", "retention", "key_retention", "sweep_interval"):
            _require(_is_positive(getattr(self, name)), f"lease_{name}", "seconds above 0")
        _require(_is_positive(self.republish_after), "lease_republish_after", "seconds above 0")
        timeout = self.attempt_timeout
        valid = timeout is None or _is_positive(timeout)
        _require(valid, "lease_attempt_timeout", "seconds above 0, or None")
        if self.heartbeat >= self.ttl / 2:
            raise ConfigurationError(
                f"lease_heartbeat={self.heartbeat:g} must be less than half of "
                f"lease_ttl={self.ttl:g}, so that one missed renewal does not lose the lease"
            )

    @property
    def waits(self) -> Backoff:
        """The backoff, also when it was given as a list of seconds."""
        if isinstance(self.backoff, Backoff):
            return self.backoff
        return Backoff(steps=tuple(float(step) for step in self.backoff), jitter=0.0)


PREFIX = "lease_"
NAMES = tuple(field.name for field in fields(Options))
#: Options one call of `apply_async` may set.
PER_CALL = frozenset(
    {
        "ttl",
        "heartbeat",
        "attempt_timeout",
        "max_attempts",
        "key",
        "tenant",
        "on_dead",
        "retention",
        "key_retention",
        "store_args",
    }
)
#: Names that are no options but begin with the prefix, defined by `LeasedTask` itself.
RESERVED = frozenset({"lease_body", "lease_options"})


def from_sources(*sources: Mapping[str, Any]) -> Options:
    """Options from mappings of `lease_*` names; the first that has a name wins.

    Raises:
        UnknownOption: A name is no option; names the nearest one.
        ConfigurationError: A value is refused.
    """
    merged: dict[str, Any] = {}
    for source in reversed(sources):
        merged.update(_stripped(source))
    if _is_positive(merged.get("ttl")) and "heartbeat" not in merged:
        # A third of the ttl leaves two tries before it ends.
        merged["heartbeat"] = merged["ttl"] / 3
    return Options(**merged)


def overridden(options: Options, call: Mapping[str, Any]) -> Options:
    """Options with what one call sets.

    Raises:
        UnknownOption: A name is no option, or not one of a call.
        ConfigurationError: A value is refused.
    """
    changes = _stripped(call)
    for name in changes.keys() - PER_CALL:
        allowed = ", ".join(f"{PREFIX}{name}" for name in sorted(PER_CALL))
        raise UnknownOption(f"{PREFIX}{name} cannot be set per call; a call takes {allowed}")
    if _is_positive(changes.get("ttl")) and "heartbeat" not in changes:
        changes["heartbeat"] = min(options.heartbeat, changes["ttl"] / 3)
    return replace(options, **changes) if changes else options


def _stripped(source: Mapping[str, Any]) -> dict[str, Any]:
    return {known(name): value for name, value in source.items()}


def known(name: str) -> str:
    """The option behind a `lease_*` name.

    Raises:
        UnknownOption: There is none; names the nearest one.
    """
    option = name.removeprefix(PREFIX)
    if option in NAMES:
        return option
    near = difflib.get_close_matches(option, NAMES, n=1, cutoff=0.0)
    raise UnknownOption(f"{name} is not an option; did you mean {PREFIX}{near[0]}?")


# -- what an exception means -------------------------------------------------


def is_retryable(options: Options, exc: BaseException) -> bool:
    """Whether the policy would try again after this exception, attempts permitting.

    The exception's own `retryable` attribute decides first, so that
    `PermanentError` is never and `RetryableError` always retried.
    """
    own = getattr(exc, "retryable", None)
    if isinstance(own, bool):
        return own
    return isinstance(exc, options.retry_on) and not isinstance(exc, options.give_up_on)


def delay_after(options: Options, exc: BaseException, attempt: int) -> float:
    """Seconds to wait after a failed attempt; `retry_after` only lengthens it."""
    asked = getattr(exc, "retry_after", None)
    wait = options.waits.delay(attempt)
    return max(wait, float(asked)) if _is_positive(asked) else wait


def failure_of(exc: BaseException, *, retryable: bool) -> Failure:
    """The exception as text; a hostile `__str__` or traceback costs only its own field."""
    code = getattr(exc, "code", None)
    name = type(exc).__qualname__
    return Failure(
        name=name,
        message=_text(exc),
        code=code if isinstance(code, str) else name,
        retryable=retryable,
        traceback=_traceback(exc),
    )


def _text(exc: BaseException) -> str:
    try:
        return str(exc)
    except Exception as broken:  # noqa: BLE001 - user code; its failure must not hide the first
        return f"<{type(exc).__qualname__}, str() raised {type(broken).__qualname__}>"


def _traceback(exc: BaseException) -> str:
    try:
        return "".join(_frames(exc))
    except Exception:  # noqa: BLE001 - formatting calls the user's __str__ as well
        return ""


def _frames(exc: BaseException) -> Iterable[str]:
    return traceback.format_exception(type(exc), exc, exc.__traceback__)
