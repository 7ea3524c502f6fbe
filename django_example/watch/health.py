"""Whether the example can do its work, answered without asking any worker."""

from dataclasses import dataclass

from django.db import InterfaceError, OperationalError
from kombu.exceptions import OperationalError as BrokerError

from celery_lease.errors import StoreUnavailable
from celery_lease.job import State
from celery_lease.stores.base import JobStore
from django_example.celery import app
from django_example.watch.store import job_store

OK = "ok"
UNREACHABLE = "unreachable"
NO_CONSUMER = "no consumer"
BROKER_SECONDS = 2
NOT_STARTED = (State.PENDING, State.RETRY_WAIT, State.WAITING)


@dataclass(frozen=True, slots=True)
class Health:
    """What ``/health`` tells.

    Attributes:
        workers: Workers whose sweeper is alive.
        pending: Jobs that wait for their first or next attempt.
        due: Those of them that could run now.
        active_leases: Attempts that run now.
        oldest_pending: Seconds that the oldest due job has been due, None without one.
        dead: Jobs that were given up.
        store: ``ok`` or ``unreachable``.
        broker: Likewise.
    """

    workers: int = 0
    pending: int = 0
    due: int = 0
    active_leases: int = 0
    oldest_pending: float | None = None
    dead: int = 0
    store: str = OK
    broker: str = OK

    @property
    def status(self) -> str:
        """Return ``ok``, or the first thing that keeps work from being done."""
        if UNREACHABLE in (self.store, self.broker):
            return UNREACHABLE
        return NO_CONSUMER if self.due and not self.workers else OK

    @property
    def http_status(self) -> int:
        """Return 200 if work can be done, 503 otherwise."""
        return 200 if self.status == OK else 503

    def as_json(self) -> dict[str, object]:
        """Return the body of the answer."""
        return {
            "status": self.status,
            "workers": self.workers,
            "pending": self.pending,
            "activeLeases": self.active_leases,
            "oldestPendingSeconds": self.oldest_pending,
            "dead": self.dead,
            "store": self.store,
            "broker": self.broker,
        }


def check_health() -> Health:
    """Ask store and broker, each once."""
    broker = OK if broker_answers() else UNREACHABLE
    try:
        return _from_store(job_store(), broker)
    except (StoreUnavailable, OperationalError, InterfaceError):
        return Health(store=UNREACHABLE, broker=broker)


def _from_store(store: JobStore, broker: str) -> Health:
    counts = store.counts()
    return Health(
        workers=len(store.workers()),
        pending=sum(counts.by_state.get(state, 0) for state in NOT_STARTED),
        due=counts.due,
        active_leases=counts.active_leases,
        oldest_pending=counts.oldest_pending,
        dead=counts.by_state.get(State.DEAD, 0),
        broker=broker,
    )


def broker_answers() -> bool:
    """Tell whether a connection to the broker can be made."""
    with app.connection_for_write(connect_timeout=BROKER_SECONDS) as connection:
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=BROKER_SECONDS)
        except BrokerError:
            return False
    return True
