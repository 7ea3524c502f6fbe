"""One deadline for everything that a POST waits for."""

import time


class Deadline:
    """A moment after which nothing may be waited for any more.

    Args:
        seconds: How far away the moment is.
    """

    def __init__(self, seconds: float) -> None:
        self._start = time.monotonic()
        self._end = self._start + seconds

    def cap(self, timeout: float | None = None) -> float:
        """Return the seconds that may still be waited, ``timeout`` at most.

        Raises:
            TimeoutError: If the moment has passed.
        """
        remaining = self._end - time.monotonic()
        if remaining <= 0:
            message = "the total deadline has passed"
            raise TimeoutError(message)
        return remaining if timeout is None else min(timeout, remaining)

    def elapsed_ms(self) -> int:
        """Return the milliseconds since the deadline was set."""
        return round((time.monotonic() - self._start) * 1000)
