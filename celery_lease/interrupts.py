"""Interrupts reach a running body from another thread, or wait behind a shield."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

from celery_lease.native import is_green, new_lock

if TYPE_CHECKING:
    from celery_lease.errors import Interrupt


class InterruptGate:
    """One attempt's way of being interrupted.

    At most one interrupt is ever delivered, always into the thread that made
    the gate, never before `arm`, while a shield is closed or after `disarm`.
    """

    def __init__(self) -> None:
        self._mutex = new_lock()
        self._thread = threading.get_ident()
        self._armed = False
        self._shields = 0
        self._asked: type[Interrupt] | None = None
        self._delivered = False

    @property
    def asked(self) -> type[Interrupt] | None:
        """The interrupt that was asked for, delivered or not."""
        return self._asked

    def arm(self) -> None:
        """Let interrupts through from here on; what was asked before comes at once."""
        with self._mutex:
            self._armed = True
            if self._asked is not None:
                self._deliver(self._asked)

    def ask(self, kind: type[Interrupt]) -> None:
        """Interrupt the body: at its next Python instruction, or when its shield opens."""
        with self._mutex:
            if self._asked is None:
                self._asked = kind
                if self._armed and not self._shields:
                    self._deliver(kind)

    def _deliver(self, kind: type[Interrupt] | None) -> None:
        # A greenlet shares its thread with others, so nothing can be thrown into it
        # from here; it learns at `Lease.check()`.
        if not is_green():
            self._delivered = kind is not None
            target = ctypes.py_object(kind) if kind else None
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), target)

    def close(self) -> None:
        """Hold interrupts back; may be nested."""
        with self._mutex:
            self._shields += 1

    def open(self, *, told: bool = False) -> None:
        """End the innermost `close`; raises what was held back when it was the last.

        Args:
            told: The body learns of it by another exception already, so raise nothing.
        """
        with self._mutex:
            self._shields -= 1
            held_back = None
            if self._asked and self._armed and not self._shields and not self._delivered:
                self._delivered = True
                held_back = None if told else self._asked
        if held_back is not None:
            raise held_back

    def disarm(self) -> None:
        """Let no interrupt through any more, and take back one that is on its way."""
        with self._mutex:
            self._armed = False
            if self._delivered:
                # Python keeps one that was set and not yet raised; it must not hit the tracer.
                self._deliver(None)
