"""The store and the transactions of those who call it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from celery_lease.django.clock import read_clock
from celery_lease.django.models import Job
from celery_lease.errors import (
    JobIdConflict,
    OperationKeyConflict,
    StaleToken,
    TransactionModeError,
)
from celery_lease.job import Busy, Claimed, Kind, State
from celery_lease.message import to_text
from celery_lease.stores import open_store
from celery_lease.testing.contract.scene import (
    FAILURE,
    OTHER,
    PAST_TTL,
    bury,
    claim,
    finish,
    get,
    hold,
    hold_new,
    kinds,
    new,
    submit,
)
from tests.django_store.holding import closing, elsewhere, held, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import SettingsWrapper
    from pytest_django.plugin import DjangoDbBlocker

    from celery_lease.stores.base import JobStore
    from celery_lease.testing.contract.scene import Elapse
    from tests.support.databases import TestDatabase


class ChangedMindError(Exception):
    """Rolls a caller's transaction back."""


# -- submitting inside the caller's transaction -----------------------------


def test_what_is_submitted_appears_with_the_callers_commit(store: JobStore) -> None:
    sent: list[str] = []
    with transaction.atomic():
        submit(store)
        store.after_commit(lambda: sent.append("a"))
        assert elsewhere(lambda: store.get("a")) is None
        assert sent == []
    assert get(store).state == State.PENDING
    assert sent == ["a"]


def test_a_rollback_leaves_nothing(store: JobStore) -> None:
    sent: list[str] = []
    with pytest.raises(ChangedMindError), transaction.atomic():
        submit(store)
        store.after_commit(lambda: sent.append("a"))
        raise ChangedMindError
    assert store.get("a") is None
    assert store.events("a") == []
    assert sent == []


def test_a_failing_publish_harms_neither_the_commit_nor_its_siblings(store: JobStore) -> None:
    sent: list[str] = []
    with transaction.atomic():
        submit(store)
        store.after_commit(lambda: sent.append("a") or 1 / 0)  # type: ignore[func-returns-value]
        store.after_commit(lambda: sent.append("b"))
    assert sent == ["a", "b"]


@pytest.mark.parametrize(
    ("conflicting", "error"),
    [
        (replace(new("b", key="k"), fingerprint="others"), OperationKeyConflict),
        (replace(new("a"), task="another.task"), JobIdConflict),
    ],
)
@pytest.mark.parametrize("companions", [[], [new("c"), new("d", key="other")]])
def test_a_conflict_leaves_the_callers_transaction_usable(
    store: JobStore, conflicting: Any, error: type[Exception], companions: list[Any]
) -> None:
    submit(store, new("a", key="k"))
    with transaction.atomic():
        Group.objects.create(name="before")
        with pytest.raises(error):
            store.submit([*companions, conflicting])
        Group.objects.create(name="after")
    assert Group.objects.count() == 2
    assert [store.get(name) for name in "bcd"] == [None] * 3


@pytest.mark.parametrize("companion", ["", "x"])
def test_of_many_who_submit_one_key_in_transactions_one_creates_and_all_go_on(
    store: JobStore, companion: str
) -> None:
    """The others wait for the first one's commit, and then join in a transaction still good."""
    start = threading.Barrier(8)

    def one(name: str) -> bool:
        start.wait()
        with transaction.atomic():
            batch = [new(name, key="k")] + ([new(name + companion)] if companion else [])
            created = store.submit(batch)[0].created
            Group.objects.create(name=name)
            return created

    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda n: closing(lambda: one(f"job {n}")), range(8)))
    assert sorted(created) == [False] * 7 + [True]
    assert Group.objects.count() == 8
    assert {get(store, f"job {n}").id for n in range(8)} == {f"job {created.index(True)}"}


def test_who_waited_for_a_submission_that_was_rolled_back_creates(
    postgres_store: JobStore,
) -> None:
    def change_mind() -> None:
        with transaction.atomic():
            submit(postgres_store, new("a", key="k"))
            raise ChangedMindError

    with (
        held('INSERT INTO "celery_lease_jobevent"', change_mind) as first,
        waiting(lambda: submit(postgres_store, new("b", key="k"))) as second,
    ):
        with pytest.raises(ChangedMindError):
            first.finish()
        assert second.result(10).created


def test_a_replay_asked_by_a_submission_belongs_to_its_transaction(store: JobStore) -> None:
    bury(store, new("a", key="k"))
    again = replace(new("b", key="k"), on_dead="replay")
    with pytest.raises(ChangedMindError), transaction.atomic():
        assert store.submit([again])[0].job.state == State.PENDING
        raise ChangedMindError
    assert get(store).state == State.DEAD
    assert store.get("b") is None


# -- everything inside a transaction, as in a TestCase ----------------------


@contextmanager
def as_in_a_test_case() -> Iterator[None]:
    """The transaction of `django.test.TestCase`, which is rolled back at its end."""
    atomic = transaction.atomic()
    atomic._from_testcase = True  # type: ignore[attr-defined]
    with atomic:
        yield
        transaction.set_rollback(True)


def test_a_whole_life_fits_into_the_transaction_of_a_test_case(
    store: JobStore, elapse: Elapse
) -> None:
    with as_in_a_test_case():
        stale = hold_new(store)
        elapse(PAST_TTL)
        grant = hold(store, owner=OTHER)
        assert store.renew([stale, grant]).lost == {stale}
        with pytest.raises(StaleToken), store.commit(stale, to_text):
            Group.objects.create(name="stale")
        with store.commit(grant, to_text) as done:
            Group.objects.create(name="effect")
            done.result = 1
        assert store.settle(grant)
        assert [group.name for group in Group.objects.all()] == ["effect"]
        assert Kind.STALE_WRITE_REFUSED in kinds(store)
        assert store.counts().by_state == {State.SUCCEEDED: 1}
    assert store.get("a") is None
    assert not Group.objects.exists()


def test_a_refused_verb_leaves_the_callers_transaction_usable(
    store: JobStore, elapse: Elapse
) -> None:
    stale = hold_new(store)
    elapse(PAST_TTL)
    with transaction.atomic():
        Group.objects.create(name="before")
        store.expire(10)
        with pytest.raises(StaleToken):
            store.succeed(stale, None)
    assert Group.objects.count() == 1
    assert kinds(store)[-1] is Kind.STALE_WRITE_REFUSED


def test_time_goes_on_inside_a_transaction(store: JobStore) -> None:
    submit(store)
    with transaction.atomic():
        asked = Job.objects.with_clock()
        times = [read_clock(connection), asked.get().read_at, read_clock(connection)]
        times += [asked.get().read_at]
    assert times == sorted(set(times))


# -- SQLite's modes, PostgreSQL's isolation, routers ------------------------


@pytest.fixture
def deferred(
    sqlite_database: TestDatabase, django_db_blocker: DjangoDbBlocker
) -> Iterator[JobStore]:
    """On SQLite as Django sets it up if not told otherwise."""
    del sqlite_database
    del connections.settings["default"]["OPTIONS"]["transaction_mode"]
    with django_db_blocker.unblock():
        store = open_store("django://default", timeout=5.0)
        yield store
        store.close()


def test_steps_begin_as_writers_whatever_the_project_set(deferred: JobStore) -> None:
    with CaptureQueriesContext(connection) as captured:
        grant = hold_new(deferred)
        with deferred.commit(grant, to_text):
            pass
    begun = [query["sql"] for query in captured if query["sql"].startswith("BEGIN")]
    assert begun == ["BEGIN IMMEDIATE"] * 3
    with CaptureQueriesContext(connection) as captured, transaction.atomic():
        pass
    assert captured[0]["sql"] == "BEGIN"


def test_many_writers_do_not_collide_whatever_the_project_set(deferred: JobStore) -> None:
    def one(name: str) -> None:
        with deferred.commit(hold_new(deferred, new(name)), to_text):
            Group.objects.create(name=name)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: closing(lambda: one(f"job {n}")), range(16)))
    assert Group.objects.count() == 16


def test_a_submit_in_a_transaction_that_only_read_says_what_to_set(deferred: JobStore) -> None:
    with transaction.atomic():
        Group.objects.count()
        elsewhere(lambda: submit(deferred, new("b")))
        with pytest.raises(TransactionModeError, match="transaction_mode"):
            submit(deferred)


class TestStricterIsolation:
    """In it a claim that waited would fail instead of seeing what became of the job."""

    @pytest.fixture
    def store(self, postgres_store: JobStore) -> JobStore:
        connections["default"].close()
        connections.settings["default"]["OPTIONS"]["isolation_level"] = 4  # serializable
        return postgres_store

    def test_is_not_the_stores(self, store: JobStore, elapse: Elapse) -> None:
        submit(store)
        elapse(20.0)
        with (
            held('UPDATE "celery_lease_job"', lambda: store.due(10)) as publishing,
            waiting(lambda: claim(store)) as claimed,
        ):
            publishing.finish()
            assert isinstance(claimed.result(10), Claimed)

    def test_stays_the_projects(self, store: JobStore) -> None:
        hold_new(store)
        assert isinstance(claim(store, owner=OTHER), Busy)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SHOW transaction_isolation")
            assert cursor.fetchone() == ("serializable",)


class Nowhere:
    """A router that sends everything astray."""

    def db_for_read(self, model: Any, **_: Any) -> str:
        return f"no database for {model}"

    db_for_write = db_for_read


def test_routers_and_replicas_are_never_asked(
    store: JobStore, elapse: Elapse, settings: SettingsWrapper
) -> None:
    settings.DATABASE_ROUTERS = ["tests.django_store.test_transactions.Nowhere"]
    submit(store, new("a", key="k"))
    submit(store, new("b", key="k"))
    grant = hold(store)
    store.renew([grant])
    store.fail(grant, FAILURE, retry_in=None)
    store.settle(grant)
    claim(store, "b")
    store.replay("a", by="test")
    store.cancel("b", by="test")
    finish(store, new("c"))
    hold_new(store, new("d"))
    store.refused(grant, "test")
    elapse(31 * 86_400.0)
    store.expire(10)
    store.due(10)
    store.published(["d"], republish_after=900.0, epoch="one")
    store.broker_lost_data("two", limit=10)
    store.next_due_in()
    store.prune(10)
    store.register_worker("w", ttl=60.0)
    assert store.workers() == ["w"]
    assert store.counts().by_state
    with store.commit(hold(store, "d"), to_text):
        pass
