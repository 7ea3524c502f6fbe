"""Judges deadlines in a thread of its own, so that a blocked renewal cannot silence it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from celery_lease import signals
from celery_lease.clock import SystemClock
from celery_lease.errors import AttemptTimedOut, LeaseLost
from celery_lease.native import start_thread

if TYPE_CHECKING:
    from celery_lease.holdings import Holding, Holdings

logger = logging.getLogger(__name__)

#: Seconds to sleep when nothing is held.
IDLE = 60.0


class Watchdog:
    """Interrupts attempts whose lease is no longer trusted or whose time is up.

    Args:
        holdings: What is held.
    """

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._monotonic = SystemClock().monotonic

    def start(self) -> None:
        """Start the loop; it lives as long as the process."""
        start_thread(self._loop, "celery-lease-watchdog")

    def _loop(self) -> None:
        bell = self._holdings.bells[1]
        while True:
            bell.wait(self._seconds_to_next())
            for holding in self._holdings.all():
                self._judge(holding, self._monotonic())

    def _seconds_to_next(self) -> float:
        deadlines = [
            deadline for holding in self._holdings.all() for deadline in _deadlines(holding)
        ]
        return min(deadlines, default=self._monotonic() + IDLE) - self._monotonic()

    @staticmethod
    def _judge(holding: Holding, now: float) -> None:
        if not holding.lost and now >= holding.lease.trusted_until:
            holding.lost = True
            holding.gate.ask(LeaseLost)
            logger.warning(
                "lease of job %s was not renewed in time and is lost", holding.grant.job_id
            )
            signals.lease_lost.send(None, grant=holding.grant)
        elif holding.times_out_at is not None and now >= holding.times_out_at:
            holding.gate.ask(AttemptTimedOut)


def _deadlines(holding: Holding) -> list[float]:
    if holding.lost:
        return []
    deadlines = [holding.lease.trusted_until]
    if holding.times_out_at is not None and holding.gate.asked is None:
        deadlines.append(holding.times_out_at)
    return deadlines
