"""What one app needs to run leased tasks: a store, its loops, a publisher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery_lease.heartbeat import Heartbeat
from celery_lease.holdings import Holdings
from celery_lease.publisher import Publisher
from celery_lease.stores import open_store
from celery_lease.watchdog import Watchdog

if TYPE_CHECKING:
    from celery import Celery

    from celery_lease.policy import Options
    from celery_lease.stores.base import JobStore


class Runtime:
    """One store of one app, with the leases this process holds in it."""

    def __init__(self, app: Celery, store: JobStore) -> None:
        self.store = store
        self.publisher = Publisher(app)
        self.holdings = Holdings(self._start_loops)

    def _start_loops(self) -> None:
        Heartbeat(self.store, self.holdings).start()
        Watchdog(self.holdings).start()


def runtime_of(app: Celery, options: Options) -> Runtime:
    """The runtime of an app for the store its options name.

    Raises:
        ConfigurationError: `lease_store` is missing or wrong; says what to write.
    """
    known: dict[Any, Runtime] = app.__dict__.setdefault("_lease_runtimes", {})
    if options.store not in known:
        known[options.store] = Runtime(app, open_store(options.store, options.heartbeat / 2))
    return known[options.store]


def runtimes_of(app: Celery) -> list[Runtime]:
    """All runtimes an app has opened so far."""
    return list(app.__dict__.get("_lease_runtimes", {}).values())
