"""Renews all leases of a process in one call, in a thread of its own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from celery_lease import signals
from celery_lease.clock import SystemClock
from celery_lease.errors import LeaseError, LeaseLost
from celery_lease.native import start_thread

if TYPE_CHECKING:
    from celery_lease.holdings import Holding, Holdings
    from celery_lease.stores.base import JobStore

logger = logging.getLogger(__name__)

#: Seconds without a lease after which the loop gives its store connection back.
IDLE = 10.0


class Heartbeat:
    """Asks the store for more time, well before a lease ends.

    Args:
        store: Where the leases are.
        holdings: What is held.
    """

    def __init__(self, store: JobStore, holdings: Holdings) -> None:
        self._store = store
        self._holdings = holdings
        self._monotonic = SystemClock().monotonic

    def start(self) -> None:
        """Start the loop; it lives as long as the process."""
        start_thread(self._loop, "celery-lease-heartbeat")

    def _loop(self) -> None:
        bell = self._holdings.bells[0]
        while True:
            bell.wait(self._seconds_to_next())
            if not self._holdings.all():
                self._store.close()
                continue
            self._beat_safely()

    def _seconds_to_next(self) -> float:
        now = self._monotonic()
        planned = [h.next_renewal(now) for h in self._holdings.all()]
        return min((at for at in planned if at is not None), default=now + IDLE) - now

    def _beat_safely(self) -> None:
        try:
            self.beat()
        except LeaseError as down:
            logger.warning("leases could not be renewed, trying again: %s", down)
        except Exception:
            # This thread is all that keeps the leases; an error of ours must not end it.
            logger.exception("renewing leases failed")

    def beat(self) -> None:
        """Renew what is due, and tell the holders of what is lost.

        Raises:
            StoreUnavailable: Nothing was renewed.
        """
        sent_at = self._monotonic()
        due = [h for h in self._holdings.all() if _is_due(h, sent_at)]
        if not due:
            return
        for holding in due:
            holding.tried_at = sent_at
        renewal = self._store.renew([holding.grant for holding in due])
        for holding in due:
            if holding.grant in renewal.lost:
                _tell_lost(holding)
            else:
                holding.granted(sent_at)
        signals.lease_renewed.send(None, grants=[h.grant for h in due if not h.lost])


def _is_due(holding: Holding, now: float) -> bool:
    at = holding.next_renewal(now)
    return at is not None and at <= now


def _tell_lost(holding: Holding) -> None:
    holding.lost = True
    holding.gate.ask(LeaseLost)
    logger.warning("lease of job %s was lost", holding.grant.job_id)
    signals.lease_lost.send(None, grant=holding.grant)
