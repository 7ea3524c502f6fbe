"""The one way a test waits for something it cannot be told about."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def wait_for(
    predicate: Callable[[], T], timeout: float = 10.0, *, interval: float = 0.02, what: str = ""
) -> T:
    """Calls `predicate` until it returns something true, and returns that.

    Args:
        predicate: cheap, without side effects.
        timeout: seconds.
        interval: seconds between two calls.
        what: names the awaited thing in the failure.

    Raises:
        AssertionError: nothing true within `timeout`; carries the last value.
    """
    deadline = time.monotonic() + timeout
    pause = threading.Event()
    while not (value := predicate()):
        if time.monotonic() >= deadline:
            message = f"no {what or predicate} within {timeout} s, last value {value!r}"
            raise AssertionError(message)
        pause.wait(interval)
    return value
