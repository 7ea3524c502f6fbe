"""A clock that moves only when told."""

from __future__ import annotations


class FakeClock:
    """Both clocks of `celery_lease.clock.Clock`, standing still between two calls of `advance`.

    Args:
        wall: Seconds since the epoch at the start.
    """

    def __init__(self, wall: float = 1_700_000_000.0) -> None:
        self._wall = wall
        self._monotonic = 0.0

    def wall(self) -> float:
        """Seconds since the epoch."""
        return self._wall

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._wall += seconds
        self._monotonic += seconds

    def set_back(self, seconds: float) -> None:
        """Turn the wall clock back, as an operator or a time server does."""
        self._wall -= seconds
