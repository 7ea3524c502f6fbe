"""What a task body did, as values: running it and reporting it stay apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from celery.exceptions import Ignore, Reject, Retry

from celery_lease.errors import Deferred, Interrupt

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Returned:
    """It returned."""

    value: Any


@dataclass(frozen=True)
class Raised:
    """It raised an exception that the retry policy judges."""

    exc: BaseException


@dataclass(frozen=True)
class AskedRetry:
    """It called `retry()`.

    Attributes:
        exc: The `Retry` for Celery.
    """

    exc: Retry


@dataclass(frozen=True)
class AskedDefer:
    """It called `lease.defer()`."""

    exc: Deferred


@dataclass(frozen=True)
class Skipped:
    """It raised `Ignore` or `Reject`."""

    exc: Ignore | Reject


@dataclass(frozen=True)
class Interrupted:
    """It was interrupted."""

    exc: Interrupt


@dataclass(frozen=True)
class Exiting:
    """It is taking the process down (`SystemExit`, `KeyboardInterrupt`, a killed greenlet)."""

    exc: BaseException


Outcome = Returned | Raised | AskedRetry | AskedDefer | Skipped | Interrupted | Exiting


def outcome_of(body: Callable[[], Any]) -> Outcome:  # noqa: PLR0911 - one per row
    """Run a body to its end, whatever that is."""
    try:
        return Returned(body())
    except Deferred as deferred:
        return AskedDefer(deferred)
    except Interrupt as interrupt:
        return Interrupted(interrupt)
    except Retry as retry:
        return AskedRetry(retry)
    except (Ignore, Reject) as skipped:
        return Skipped(skipped)
    except Exception as exc:  # noqa: BLE001 - whatever a body raises is an outcome
        behind = _interrupt_behind(exc)
        return Interrupted(behind) if behind else Raised(exc)
    except BaseException as exc:  # noqa: BLE001 - reported, then raised again
        return Exiting(exc)


def _interrupt_behind(exc: BaseException) -> Interrupt | None:
    """The interrupt on whose way out `exc` was raised: a rollback in a driver cut short, say."""
    behind: BaseException | None = exc
    seen: set[int] = set()
    while behind is not None and id(behind) not in seen:
        if isinstance(behind, Interrupt) and not isinstance(behind, Deferred):
            return behind
        seen.add(id(behind))
        behind = behind.__context__
    return None
