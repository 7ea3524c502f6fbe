"""Takes jobs from dead holders and publishes what is due; any number may run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from celery_lease import signals
from celery_lease.errors import LeaseError
from celery_lease.native import Bell, start_thread

if TYPE_CHECKING:
    from celery_lease.publisher import Publisher
    from celery_lease.stores.base import JobStore

logger = logging.getLogger(__name__)

#: Jobs taken or published in one pass; the next pass follows at once when one was full.
BATCH = 100
#: Seconds until a message that the broker refused is tried again.
REFUSED_DELAY = 2.0
#: Passes after which the broker's epoch is compared and old jobs are pruned.
EPOCH_EVERY, PRUNE_EVERY = 2, 60
#: Worker registrations outlive this many missed passes, and this many seconds at least.
MISSED_PASSES, LEAST_REGISTRATION = 5, 5.0


class Sweeper:
    """One loop in a worker's main process.

    Args:
        store: Where the jobs are.
        publisher: With a connection of its own.
        name: The worker's, for the registry.
        interval: Seconds between passes at most.
        republish_after: Seconds after which a published message is presumed lost.
    """

    def __init__(
        self,
        store: JobStore,
        publisher: Publisher,
        name: str,
        interval: float = 1.0,
        republish_after: float = 900.0,
    ) -> None:
        self._store = store
        self._publisher = publisher
        self._name = name
        self._interval = interval
        self._republish_after = republish_after
        self._bell = Bell()
        self._stopping = False
        self._stopped = Bell()
        self._ended = True
        self._passes = 0

    def start(self) -> None:
        """Start the loop."""
        self._ended = False
        start_thread(self._loop, "celery-lease-sweeper")

    def stop(self, timeout: float = 5.0) -> None:
        """End the loop and wait for its last pass, `timeout` seconds at most; safe to repeat."""
        self._stopping = True
        self._bell.ring()
        if not self._ended:
            self._stopped.wait(timeout)

    def _loop(self) -> None:
        try:
            while not self._stopping:
                self._bell.wait(self._sweep_safely())
            self._leave()
        finally:
            self._ended = True
            self._stopped.ring()

    def _sweep_safely(self) -> float:
        try:
            return self.sweep()
        except LeaseError as down:
            logger.warning("sweeping failed, trying again: %s", down)
        except Exception:
            # Every worker relies on some sweeper; an error of ours must not end this one.
            logger.exception("sweeping failed")
        return self._interval

    def sweep(self) -> float:
        """One pass.

        Returns:
            Seconds until the next one is wanted.

        Raises:
            StoreUnavailable: Nothing more could be done.
        """
        self._register()
        self._watch_epoch()
        taken = self._expire()
        left = self._publish_due()
        self._prune()
        self._passes += 1
        if BATCH in (taken, left):
            return 0.0
        next_due = self._store.next_due_in()
        return self._interval if next_due is None else min(next_due, self._interval)

    def _register(self) -> None:
        lifetime = max(self._interval * MISSED_PASSES, LEAST_REGISTRATION)
        self._store.register_worker(self._name, lifetime)

    def _watch_epoch(self) -> None:
        if self._passes % EPOCH_EVERY == 0 and (epoch := self._publisher.epoch()):
            lost = self._store.broker_lost_data(epoch, BATCH)
            if lost:
                logger.warning("the broker lost its data, %d jobs are published again", lost)

    def _expire(self) -> int:
        expired = self._store.expire(BATCH)
        for job in expired:
            logger.warning(
                "lease of job %s ended: %s held it for %.1f s, it is %s now",
                job.job_id,
                job.owner,
                job.age,
                job.state,
            )
            signals.lease_expired.send(None, expired=job)
        return len(expired)

    def _publish_due(self) -> int:
        due = self._store.due(BATCH)
        if not due:
            return 0
        sent = self._publisher.publish(due)
        if sent.task_ids:
            self._store.published(sent.task_ids, self._republish_after, sent.epoch)
        refused = {message.task_id for message in due}.difference(sent.task_ids)
        if refused:
            self._store.publish_again(sorted(refused), REFUSED_DELAY)
        return len(sent.task_ids)

    def _prune(self) -> None:
        if self._passes % PRUNE_EVERY == 0:
            self._store.prune(BATCH)

    def _leave(self) -> None:
        try:
            self._store.forget_worker(self._name)
        except LeaseError as down:
            logger.debug("worker is not signed off: %s", down)
        self._publisher.close()
        self._store.close()
