"""Threads and locks of the operating system, also where gevent has patched Python's.

A renewal must go on while a greenlet keeps the interpreter's only green
thread busy, so the loops that keep leases alive cannot be greenlets.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def is_green() -> bool:
    """Whether gevent has replaced threads by greenlets in this process."""
    monkey = sys.modules.get("gevent.monkey")
    return bool(monkey and monkey.is_module_patched("threading"))


def _original(module: str, name: str) -> Any:
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None:
        return monkey.get_original(module, name)
    return getattr(sys.modules[module], name)


def start_thread(run: Callable[[], None], name: str) -> None:
    """Run `run` in a daemon thread of the operating system."""
    if not is_green():
        threading.Thread(target=run, name=name, daemon=True).start()
        return
    _original("_thread", "start_new_thread")(run, ())


def new_lock() -> Any:
    """A lock that blocks the operating system's thread, not a greenlet.

    Use it in a `with` and never through a wrapper written in Python: an interrupt can hit
    between the wrapper's `acquire` and its return, and nobody would release the lock.
    """
    return _original("_thread", "allocate_lock")()


class Bell:
    """Wakes one waiting thread; a ring with nobody waiting is kept for the next wait."""

    def __init__(self) -> None:
        self._closed = new_lock()
        self._closed.acquire()

    def ring(self) -> None:
        """Wake the waiter, now or when it comes."""
        try:
            self._closed.release()
        except RuntimeError:
            # Two rings are one.
            return

    def wait(self, seconds: float) -> bool:
        """Wait for a ring for at most so long; whether one came."""
        return bool(self._closed.acquire(timeout=max(0.0, seconds)))
