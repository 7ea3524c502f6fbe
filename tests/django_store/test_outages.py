"""Databases that fail, and processes that fall silent in the middle of a step."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connection, transaction

from celery_lease.errors import ConfigurationError, StaleToken, StoreUnavailable
from celery_lease.job import Busy, Claimed, Kind
from celery_lease.message import to_text
from celery_lease.stores import open_store
from celery_lease.testing.contract.scene import (
    OTHER,
    PAST_TTL,
    claim,
    hold_new,
    kinds,
    submit,
)
from tests.django_store.holding import (
    elsewhere,
    held,
    kill_others,
    somebody_is_idle_in_a_transaction,
)
from tests.support.databases import default_database
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django.plugin import DjangoDbBlocker

    from celery_lease.stores.base import JobStore
    from celery_lease.testing.contract.scene import Elapse
    from tests.support.databases import TestDatabase

JOB_UPDATE = 'UPDATE "celery_lease_job"'


def test_a_server_that_is_not_there_is_an_outage(django_db_blocker: DjangoDbBlocker) -> None:
    store = open_store("django://default", timeout=1.0)
    with (
        django_db_blocker.unblock(),
        default_database("postgresql://postgres@127.0.0.1:1/nowhere"),
    ):
        for ask in (lambda: submit(store), lambda: store.get("a"), lambda: claim(store)):
            with pytest.raises(StoreUnavailable):
                ask()


def test_a_server_that_never_answers_is_an_outage_in_time(
    django_db_blocker: DjangoDbBlocker, silent_port: int
) -> None:
    """libpq alone would wait for ever; it knows no time below two seconds."""
    store = open_store("django://default", timeout=1.0)
    begun = time.monotonic()
    with (
        django_db_blocker.unblock(),
        default_database(f"postgresql://postgres@127.0.0.1:{silent_port}/nowhere"),
        pytest.raises(StoreUnavailable),
    ):
        claim(store)
    assert time.monotonic() - begun < 4.0


def test_missing_tables_are_told(django_db_blocker: DjangoDbBlocker, tmp_path: Path) -> None:
    store = open_store("django://default", timeout=1.0)
    with (
        django_db_blocker.unblock(),
        default_database(f"sqlite:///{tmp_path}/empty.sqlite3"),
        pytest.raises(ConfigurationError, match=r"manage\.py migrate"),
    ):
        submit(store)


def test_tables_of_another_version_are_told(store: JobStore) -> None:
    with connection.cursor() as cursor:
        cursor.execute('ALTER TABLE "celery_lease_job" RENAME COLUMN "handed_out" TO "gone"')
    with pytest.raises(ConfigurationError, match=r"manage\.py migrate"):
        submit(store)


def test_a_refusal_that_cannot_be_recorded_is_a_refusal(
    store: JobStore, caplog: pytest.LogCaptureFixture
) -> None:
    grant = hold_new(store)
    store.release(grant)

    def fail(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if sql.startswith("INSERT"):
            raise OperationalError("disk full")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(fail), pytest.raises(StaleToken):
        store.succeed(grant, None)
    assert "could not be recorded" in caplog.text
    assert Kind.STALE_WRITE_REFUSED not in kinds(store)


def test_who_waits_too_long_for_sqlites_writer_is_told_of_an_outage(
    sqlite_database: TestDatabase, django_db_blocker: DjangoDbBlocker
) -> None:
    """However patient the project's own transactions are: here twenty seconds."""
    del sqlite_database
    store, impatient = (open_store("django://default", timeout=t) for t in (5.0, 0.2))
    with django_db_blocker.unblock():
        submit(store)
        begun = time.monotonic()
        with held(JOB_UPDATE, lambda: claim(store)) as claiming:
            with pytest.raises(StoreUnavailable):
                claim(impatient, owner=OTHER)
            assert time.monotonic() - begun < 4.0
            assert isinstance(claiming.finish(), Claimed)
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout")
            assert cursor.fetchone() == (20_000,)
        store.close()


class TestOnPostgres:
    """What only a server can do."""

    @pytest.fixture
    def store(self, postgres_store: JobStore) -> JobStore:
        return postgres_store

    def test_who_waits_too_long_for_a_row_is_told_of_an_outage(self, store: JobStore) -> None:
        impatient = open_store("django://default", timeout=0.2)
        submit(store)
        with held(JOB_UPDATE, lambda: claim(store)) as claiming:
            with pytest.raises(StoreUnavailable):
                claim(impatient, owner=OTHER)
            assert isinstance(claiming.finish(), Claimed)

    def test_the_limits_of_a_step_end_with_it(self, store: JobStore) -> None:
        submit(store)
        with connection.cursor() as cursor:
            for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
                cursor.execute(f"SHOW {name}")
                assert cursor.fetchone() == ("0",)

    def test_a_submit_leaves_the_callers_limits_alone(self, store: JobStore) -> None:
        with transaction.atomic():
            submit(store)
            with connection.cursor() as cursor:
                cursor.execute("SHOW statement_timeout")
                assert cursor.fetchone() == ("0",)

    def test_a_stopped_process_does_not_keep_its_locks(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        """It fell silent in the middle of a step of its own."""
        impatient = open_store("django://default", timeout=0.2)
        hold_new(store)
        elapse(PAST_TTL)
        with held(JOB_UPDATE, lambda: impatient.expire(10)) as silent:
            wait_for(lambda: store.expire(10), what="job of the silent sweeper")
            with pytest.raises(StoreUnavailable):
                silent.finish()
        assert kinds(store).count(Kind.LEASE_EXPIRED) == 1

    def test_a_commit_that_falls_silent_ends_with_its_trust(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        grant = hold_new(store)

        def commit() -> None:
            with store.commit(grant, to_text, 1.0):
                Group.objects.create(name="effect")

        elapse(PAST_TTL)
        with held(JOB_UPDATE, commit) as silent:
            assert isinstance(claim(store, owner=OTHER), Busy)
            wait_for(lambda: not somebody_is_idle_in_a_transaction(), what="end of the silence")
            assert isinstance(claim(store, owner=OTHER), Claimed)
            with pytest.raises(StaleToken):
                silent.finish()
        assert not Group.objects.exists()

    def test_a_killed_connection_is_an_outage_and_no_more(self, store: JobStore) -> None:
        grant = hold_new(store)
        elsewhere(kill_others)
        with pytest.raises(StoreUnavailable):
            store.renew([grant])
        assert store.renew([grant]).lost == frozenset()
