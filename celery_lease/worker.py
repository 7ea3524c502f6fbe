"""The worker's part: a sweeper per store, installed with an app's first leased task."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from celery import bootsteps

from celery_lease.errors import ConfigurationError
from celery_lease.policy import Options
from celery_lease.publisher import Publisher
from celery_lease.runtime import runtime_of
from celery_lease.sweeper import Sweeper

if TYPE_CHECKING:
    from celery import Celery

logger = logging.getLogger(__name__)


def install(app: Celery) -> None:
    """Add the bootstep to an app's workers, once."""
    app.steps["worker"].add(LeaseStep)


class LeaseStep(bootsteps.StartStopStep):
    """Starts and stops the sweepers in the worker's main process."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self.sweepers: list[Sweeper] = []

    def start(self, parent: Any) -> None:
        """Open every store the leased tasks name and sweep it.

        Raises:
            ConfigurationError: A store is missing or wrong, or the pool cannot share it.
        """
        by_store = {options.store: options for options in leased_options(parent.app)}
        for options in by_store.values():
            self.sweepers.append(_sweeper(parent, options))
        for sweeper in self.sweepers:
            sweeper.start()

    def stop(self, parent: Any) -> None:
        """End the sweepers."""
        del parent
        while self.sweepers:
            self.sweepers.pop().stop()

    terminate = stop


def leased_options(app: Celery) -> list[Options]:
    """The options of an app's leased tasks."""
    found = (getattr(task, "lease_options", None) for task in app.tasks.values())
    return [options for options in found if isinstance(options, Options)]


def _sweeper(parent: Any, options: Options) -> Sweeper:
    store = runtime_of(parent.app, options).store
    if not store.shared and "prefork" in parent.pool_cls.__module__:
        raise ConfigurationError(
            f"lease_store {options.store!r} lives in one process and cannot be shared by a "
            "prefork pool; use another store, or --pool threads or solo"
        )
    return Sweeper(
        store,
        Publisher(parent.app, own_connection=True),
        parent.hostname,
        interval=options.sweep_interval,
        republish_after=options.republish_after,
    )
