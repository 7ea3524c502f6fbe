"""The example's metrics, computed from the database so that every process gives the same."""

from collections.abc import Iterator
from datetime import timedelta

from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from celery_lease.job import Kind
from django_example.watch.models import Tally
from django_example.watch.store import job_store

PREFIX = "webhook_scheduler"
# Longer than any transaction here that writes events.
SETTLED_AFTER = timedelta(seconds=5)
COUNTERS = {
    "jobs_submitted": ("Jobs that were submitted.", [Kind.CREATED]),
    "jobs_processed": ("Jobs that came to an end.", [Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED]),
    "jobs_failed": ("Jobs that were given up.", [Kind.DEAD]),
    "lease_reclaimed": (
        "Leases taken from dead holders.",
        [Kind.LEASE_EXPIRED, Kind.FORCE_EXPIRED],
    ),
}


class DatabaseCollector(Collector):
    """Reads everything when it is scraped and keeps nothing."""

    def collect(self) -> Iterator[Metric]:
        """Return the metrics as they are now."""
        store = job_store()
        workers, leases = len(store.workers()), store.counts().active_leases
        yield GaugeMetricFamily(f"{PREFIX}_workers_current", "Workers that are alive.", workers)
        yield GaugeMetricFamily(f"{PREFIX}_active_leases_current", "Attempts that run.", leases)
        totals = Tally.brought_up_to(timezone.now() - SETTLED_AFTER)
        for name, (meaning, kinds) in COUNTERS.items():
            count = sum(totals[kind] for kind in kinds)
            yield CounterMetricFamily(f"{PREFIX}_{name}", meaning, count)


def exposition() -> bytes:
    """Return all metrics in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(DatabaseCollector())
    return generate_latest(registry)
