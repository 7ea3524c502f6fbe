"""The leases this process holds, watched by one heartbeat per store and one watchdog."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from celery_lease.native import Bell, new_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_lease.interrupts import InterruptGate
    from celery_lease.lease import Grant, Lease

#: Seconds after an attempt's timeout at which its renewal stops too.
TIMEOUT_GRACE = 5.0


def trust_margin(ttl: float) -> float:
    """Seconds before the end of a lease at which its holder stops trusting it.

    Covers the store's clock against ours and the time until the interrupt is seen.
    """
    return min(1.0, ttl / 10)


@dataclass(eq=False)
class Holding:
    """One held lease.

    Attributes:
        renew_every: Seconds between renewals.
        renewed_at: Monotonic time of the call that was last granted.
        times_out_at: Monotonic deadline of the attempt, `None` for none.
        thread: Identity of the thread (or greenlet) that runs the attempt.
    """

    lease: Lease
    gate: InterruptGate
    renew_every: float
    renewed_at: float
    times_out_at: float | None = None
    thread: int = field(default_factory=threading.get_ident)
    lost: bool = False
    tried_at: float = float("-inf")

    @property
    def grant(self) -> Grant:
        """The proof of holding."""
        return self.lease.grant

    def granted(self, sent_at: float) -> None:
        """Note a grant or renewal that was asked for at `sent_at` (monotonic seconds)."""
        self.renewed_at = sent_at
        self.lease.trust(sent_at + self.grant.ttl - trust_margin(self.grant.ttl))

    def next_renewal(self, now: float) -> float | None:
        """Monotonic time of the next renewal, `None` if there is to be none."""
        if self.lost or (self.times_out_at is not None and now >= self._renewal_stops_at):
            return None
        # One that failed is tried again soon, but not at once.
        return max(self.renewed_at + self.renew_every, self.tried_at + self.renew_every / 5)

    @property
    def _renewal_stops_at(self) -> float:
        return (self.times_out_at or 0.0) + TIMEOUT_GRACE


class Holdings:
    """A set of holdings shared by the attempts' threads and the loops.

    Args:
        on_first: Starts the loops; called when a process holds its first lease.
    """

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._mutex = new_lock()
        self._held: set[Holding] = set()
        self._started = False
        self.bells = (Bell(), Bell())

    def add(self, holding: Holding) -> None:
        """Watch a lease from now on."""
        if self._pid != os.getpid():
            # Forked: threads and locks of the parent did not come along.
            self._reset()
        with self._mutex:
            self._held.add(holding)
            first, self._started = not self._started, True
        if first:
            self._on_first()
        for bell in self.bells:
            bell.ring()

    def drop(self, holding: Holding) -> None:
        """Watch a lease no longer."""
        with self._mutex:
            self._held.discard(holding)

    def of_thread(self, thread: int) -> list[Holding]:
        """What the thread (or greenlet) of that identity holds."""
        return [holding for holding in self.all() if holding.thread == thread]

    def all(self) -> list[Holding]:
        """All that is held now."""
        if self._pid != os.getpid():
            return []
        with self._mutex:
            return list(self._held)
