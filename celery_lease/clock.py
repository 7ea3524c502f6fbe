"""The two clocks of a lease.

A store keeps wall time of its own; a holder measures its remaining time on a
monotonic clock, which no operator and no time server can set back.
"""

from __future__ import annotations

import time
from typing import Protocol

MICROSECONDS = 1_000_000


class Clock(Protocol):
    """What the memory store and the loops ask for the time."""

    def wall(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""


class SystemClock:
    """The clocks of this host."""

    def wall(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back and counts a suspended host's sleep.

        `CLOCK_MONOTONIC` stands still while a laptop or a virtual machine sleeps; the
        store's clock does not, so a lease would be trusted for too long.
        """
        return time.clock_gettime(_BOOTTIME) if _BOOTTIME is not None else time.monotonic()


#: Linux only.
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def next_token(previous: int, wall: float) -> int:
    """The token after `previous` at store time `wall` (seconds).

    Time in microseconds keeps tokens growing even when a store has lost its
    data; `previous + 1` keeps them growing when its clock went back.
    """
    return max(previous + 1, int(wall * MICROSECONDS))
