"""What operators and their machines are told."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from django.test import Client

from celery_lease.django.models import JobEvent
from celery_lease.job import Kind
from django_example.demo.processes import free_port
from django_example.watch.models import Tally
from tests.example.conftest import event
from tests.example.product import running_product
from tests.support.databases import default_database
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.example.conftest import Sender
    from tests.support.databases import TestDatabase

pytestmark = pytest.mark.urls("django_example.urls")
NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.usefixtures("endpoint")
def test_health_says_when_nothing_consumes(
    tmp_path: Path, database: TestDatabase, redis_url: str, sender: Sender
) -> None:
    with running_product(tmp_path, database, redis_url) as product:
        assert product.get("/health").json() == {
            "status": "ok",
            "workers": 0,
            "pending": 0,
            "activeLeases": 0,
            "oldestPendingSeconds": None,
            "dead": 0,
            "store": "ok",
            "broker": "ok",
        }
        product.post(sender, event())
        idle = product.get("/health")
        assert (idle.status_code, idle.json()["status"]) == (503, "no consumer")
        assert (idle.json()["pending"], idle.json()["workers"]) == (1, 0)
        assert idle.json()["oldestPendingSeconds"] >= 0
        product.children.start_worker()
        busy = wait_for(lambda: [r for r in [product.get("/health")] if r.is_success], 30)[0]
        assert busy.json()["workers"] == 1


@pytest.mark.usefixtures("endpoint")
def test_an_event_is_taken_although_the_broker_is_down_and_health_says_so(
    tmp_path: Path, database: TestDatabase, sender: Sender
) -> None:
    broker = f"redis://127.0.0.1:{free_port()}/0"
    with running_product(tmp_path, database, broker) as product:
        product.post(sender, event())
        start = time.monotonic()
        product.post(sender, event())
        down = product.get("/health")
        assert time.monotonic() - start < 3
        assert (down.status_code, down.json()["broker"]) == (503, "unreachable")
        assert down.json()["store"] == "ok"


@pytest.mark.parametrize(
    "url", ["postgresql://nobody@127.0.0.1:1/nothing", "sqlite:////nowhere/at.all"]
)
@pytest.mark.usefixtures("sqlite_database")
def test_without_a_database_both_pages_are_503(url: str) -> None:
    with default_database(url):
        health, metrics = Client().get("/health"), Client().get("/metrics")
    assert (health.status_code, health.json()["store"]) == (503, "unreachable")
    assert metrics.status_code == 503


def record(kind: Kind, age: float) -> JobEvent:
    return JobEvent.objects.create(job_id="j", kind=kind, at=NOW - timedelta(seconds=age))


@pytest.mark.usefixtures("database")
def test_totals_count_each_event_once_and_survive_its_pruning() -> None:
    record(Kind.CREATED, 20)
    record(Kind.SUCCEEDED, 10)
    assert Tally.brought_up_to(NOW) == {"created": 1, "succeeded": 1}
    JobEvent.objects.all().delete()
    record(Kind.CREATED, 5)
    assert Tally.brought_up_to(NOW) == Tally.brought_up_to(NOW) == {"created": 2, "succeeded": 1}


@pytest.mark.usefixtures("database")
def test_totals_wait_for_events_that_may_still_be_committed() -> None:
    record(Kind.CREATED, 20)
    record(Kind.DEAD, 1)
    record(Kind.CREATED, 20)
    settled = NOW - timedelta(seconds=5)
    assert Tally.brought_up_to(settled) == {"created": 1}
    assert Tally.brought_up_to(NOW) == {"created": 2, "dead": 1}


@pytest.mark.usefixtures("database")
def test_metrics_have_the_six_names() -> None:
    long_ago = datetime.now(UTC) - timedelta(minutes=1)
    for kind in (Kind.CREATED, Kind.CREATED, Kind.DEAD, Kind.LEASE_EXPIRED):
        JobEvent.objects.create(job_id="j", kind=kind, at=long_ago)
    lines = Client().get("/metrics").content.decode().splitlines()
    values = dict(line.split() for line in lines if not line.startswith("#"))
    assert values == {
        "webhook_scheduler_workers_current": "0.0",
        "webhook_scheduler_active_leases_current": "0.0",
        "webhook_scheduler_jobs_submitted_total": "2.0",
        "webhook_scheduler_jobs_processed_total": "1.0",
        "webhook_scheduler_jobs_failed_total": "1.0",
        "webhook_scheduler_lease_reclaimed_total": "1.0",
    }
