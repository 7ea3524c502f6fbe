"""On PostgreSQL no question reads a whole table, however much history there is."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from celery_lease.stores import open_store
from celery_lease.testing.contract.scene import OWNER, new
from tests.django_store.filling import fill, multiply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django.plugin import DjangoDbBlocker

    from celery_lease.stores.base import JobStore
    from tests.support.databases import TestDatabase

JOBS = 20_000
# Only leases and workers are few: as many as there are running jobs and processes.
WHOLE = re.compile(r"Seq Scan on celery_lease_(?:job|jobevent|submission)\b")
# A count that stops needs no index: it takes what comes first.
BOUNDED = re.compile(
    r"Limit .*\n +-> +Seq Scan on celery_lease_job .*(?!\n +Filter)$", re.MULTILINE
)
#: Questions about one job, and what the estimate of one of their statements stays below.
POINTS = ("get", "get joined", "events", "search", "detail")
POINT = 100.0
EXPLAINED = ("SELECT", "(SELECT", "UPDATE", "DELETE")


@pytest.fixture
def store(
    postgres_database: TestDatabase, django_db_blocker: DjangoDbBlocker
) -> Iterator[JobStore]:
    """A store with four weeks of history."""
    del postgres_database  # it is the default by now
    with django_db_blocker.unblock():
        fill(JOBS // 10)
        multiply(9)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        store = open_store("django://default", timeout=30.0)
        yield store
        store.close()


@contextmanager
def plans() -> Iterator[list[str]]:
    """The plan of each statement, made where it is about to run."""
    seen: list[str] = []

    def explain(execute: Any, sql: str, parameters: Any, many: Any, context: Any) -> Any:
        if sql.startswith(EXPLAINED) and "celery_lease_" in sql:
            with context["connection"].connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN {sql}", parameters)
                seen.append("\n".join([sql, *(line for (line,) in cursor.fetchall())]))
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(explain):
        yield seen


def questions(store: JobStore, client: Client) -> dict[str, Callable[[], object]]:
    pages = reverse("admin:celery_lease_job_changelist")
    shown = ("", "?state=dead", "?lease=live", "?lease=expired", "?period=1h", "?p=100", "?o=-6")
    detail = reverse("admin:celery_lease_job_change", args=["job-00000007"])
    asked: dict[str, Callable[[], object]] = {
        "get": lambda: store.get("job-00000007"),
        "get joined": lambda: store.get("job-00000010+1.3"),
        "events": lambda: store.events("job-00000007"),
        "submit": lambda: store.submit([new("one more", "key"), new("and one")]),
        "expire": lambda: store.expire(100),
        "expire owner": lambda: store.expire_owner(OWNER, "gone"),
        "next due": store.next_due_in,
        "broker lost data": lambda: store.broker_lost_data("new", 100),
        "due": lambda: store.due(100),
        "cancel": lambda: store.cancel("one more", "ada"),
        "prune": lambda: store.prune(50),
        "search": lambda: client.get(pages, {"q": "key-1321.4"}),
        "detail": lambda: client.get(detail),
    }
    return asked | {f"list{page}": lambda page=page: client.get(pages + page) for page in shown}


@pytest.fixture
def asked(store: JobStore) -> dict[str, list[str]]:
    """The plans of each question."""
    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    answered: dict[str, list[str]] = {}
    for name, ask in questions(store, client).items():
        with plans() as answered[name]:
            ask()
    return answered


def test_no_question_reads_a_whole_table_or_index(asked: dict[str, list[str]]) -> None:
    assert all(asked.values())
    whole = [
        (name, plan)
        for name, seen in asked.items()
        for plan in seen
        if WHOLE.search(BOUNDED.sub("", plan))
    ]
    assert whole == []
    # An index whose first column is not asked for is read from end to end.
    dear = [(name, plan) for name in POINTS for plan in asked[name] if cost(plan) > POINT]
    assert dear == []


def cost(plan: str) -> float:
    """PostgreSQL's own estimate, of which reading one page by an index is four."""
    return float(re.findall(r"\.\.(\d+\.\d+) rows", plan)[0])
