"""Two connections at once, each held at the statement that matters."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connections

from celery_lease.errors import StaleToken, StoreUnavailable
from celery_lease.job import Busy, Claimed, Kind, State
from celery_lease.message import to_text
from celery_lease.stores import open_store
from celery_lease.testing.contract.scene import (
    OTHER,
    OWNER,
    PAST_TTL,
    claim,
    due_ids,
    hold_new,
    new,
    submit,
)
from tests.django_store.conftest import shift_times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django.plugin import DjangoDbBlocker

    from celery_lease.lease import Grant
    from celery_lease.stores.base import JobStore
    from celery_lease.testing.contract.scene import Elapse
    from tests.support.databases import TestDatabase

JOB_UPDATE = 'UPDATE "celery_lease_job"'


@pytest.fixture
def store(
    postgres_database: TestDatabase, django_db_blocker: DjangoDbBlocker
) -> Iterator[JobStore]:
    """On SQLite there is one writer at a time and nothing to interleave."""
    del postgres_database
    with django_db_blocker.unblock():
        store = open_store("django://default", timeout=5.0)
        yield store
        store.close()


@pytest.fixture
def elapse() -> Elapse:
    return lambda seconds: shift_times("default", seconds)


class Held:
    """A call in another thread that stops right after its first statement of one kind."""

    def __init__(self, beginning: str) -> None:
        self._beginning = beginning
        self._reached = threading.Event()
        self._go_on = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self.future: Future[Any]

    def start(self, call: Callable[[], Any]) -> None:
        self.future = self._pool.submit(self._run, call)
        assert self._reached.wait(10), self.future

    def _run(self, call: Callable[[], Any]) -> Any:
        try:
            with connections["default"].execute_wrapper(self._stop):
                return call()
        finally:
            connections["default"].close()

    def _stop(self, execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        answer = execute(sql, params, many, context)
        if sql.startswith(self._beginning) and not self._reached.is_set():
            self._reached.set()
            self._go_on.wait(10)
        return answer

    def finish(self) -> Any:
        self._go_on.set()
        return self.future.result(10)

    def close(self) -> None:
        self._go_on.set()
        self._pool.shutdown()


@contextmanager
def held(beginning: str, call: Callable[[], Any]) -> Iterator[Held]:
    one = Held(beginning)
    try:
        one.start(call)
        yield one
    finally:
        one.close()


def commit(store: JobStore, grant: Grant) -> None:
    with store.commit(grant, to_text):
        Group.objects.create(name="effect")


def test_a_renewal_does_not_wait_for_a_commit(store: JobStore) -> None:
    grant = hold_new(store)
    with held(JOB_UPDATE, lambda: commit(store, grant)) as committing:
        assert store.renew([grant]).lost == frozenset()
        assert not committing.future.done()
        committing.finish()
    assert store.get("a").state == State.SUCCEEDED  # type: ignore[union-attr]


def test_a_take_over_finds_a_committing_job_busy(store: JobStore, elapse: Elapse) -> None:
    grant = hold_new(store)
    elapse(PAST_TTL)
    with held(JOB_UPDATE, lambda: commit(store, grant)) as committing:
        assert isinstance(claim(store, owner=OTHER), Busy)
        committing.finish()
    assert store.get("a").state == State.SUCCEEDED  # type: ignore[union-attr]
    assert Group.objects.count() == 1


def test_expire_skips_a_committing_job(store: JobStore, elapse: Elapse) -> None:
    grant = hold_new(store)
    elapse(PAST_TTL)
    with held(JOB_UPDATE, lambda: commit(store, grant)) as committing:
        assert store.expire(10) == []
        committing.finish()
    assert store.expire(10) == []
    assert Kind.LEASE_EXPIRED not in [event.kind for event in store.events("a")]


def test_a_commit_that_waits_for_an_expiry_is_refused(store: JobStore, elapse: Elapse) -> None:
    grant = hold_new(store)
    elapse(PAST_TTL)
    with held(JOB_UPDATE, lambda: store.expire(10)) as expiring, ThreadPoolExecutor(1) as pool:
        refused = pool.submit(_closing, lambda: commit(store, grant))
        assert not refused.done()
        assert [job.job_id for job in expiring.finish()] == ["a"]
        with pytest.raises(StaleToken):
            refused.result(10)
    assert not Group.objects.exists()


def test_expire_and_renewal_agree(store: JobStore, elapse: Elapse) -> None:
    grant = hold_new(store)
    elapse(PAST_TTL)
    with (
        held('DELETE FROM "celery_lease_joblease"', lambda: store.expire(10)) as expiring,
        ThreadPoolExecutor(1) as pool,
    ):
        renewal = pool.submit(_closing, lambda: store.renew([grant]))
        assert len(expiring.finish()) == 1
        assert renewal.result(10).lost == {grant}


def test_a_success_that_waits_for_a_cancel_is_refused(store: JobStore) -> None:
    grant = hold_new(store)
    with (
        held(JOB_UPDATE, lambda: store.cancel("a", by="test")) as cancelling,
        ThreadPoolExecutor(1) as pool,
    ):
        refused = pool.submit(_closing, lambda: store.succeed(grant, None))
        assert cancelling.finish()
        with pytest.raises(StaleToken):
            refused.result(10)
    assert store.get("a").state == State.CANCELLED  # type: ignore[union-attr]


def test_of_two_claims_one_is_granted(store: JobStore) -> None:
    submit(store)
    with (
        held(JOB_UPDATE, lambda: claim(store, owner=OWNER)) as first,
        ThreadPoolExecutor(1) as pool,
    ):
        second = pool.submit(_closing, lambda: claim(store, owner=OTHER))
        assert isinstance(first.finish(), Claimed)
        assert isinstance(second.result(10), Busy)


def test_a_claim_waits_for_who_only_looks_at_a_pending_job(store: JobStore, elapse: Elapse) -> None:
    """Busy would be acknowledged, and the hint lost."""
    submit(store)
    elapse(20.0)
    with held(JOB_UPDATE, lambda: store.due(10)) as publishing, ThreadPoolExecutor(1) as pool:
        claimed = pool.submit(_closing, lambda: claim(store))
        publishing.finish()
        assert isinstance(claimed.result(10), Claimed)


def test_who_joins_while_the_job_ends_is_handed_the_outcome(
    store: JobStore, elapse: Elapse
) -> None:
    grant = hold_new(store, new("a", key="k"))
    with held(JOB_UPDATE, lambda: commit(store, grant)) as committing:
        submit(store, new("b", key="k"))
        committing.finish()
    store.settle(grant)
    elapse(PAST_TTL)
    assert "b" in due_ids(store)


def test_a_killed_connection_is_an_outage_and_no_more(store: JobStore) -> None:
    grant = hold_new(store)
    _kill_other_backends()
    with pytest.raises(StoreUnavailable):
        store.renew([grant])
    assert store.renew([grant]).lost == frozenset()


def _kill_other_backends() -> None:
    """From a connection of its own, so that the store's is among the others."""

    def kill() -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    with ThreadPoolExecutor(1) as pool:
        pool.submit(_closing, kill).result(10)


def _closing(call: Callable[[], Any]) -> Any:
    try:
        return call()
    finally:
        connections["default"].close()


def test_a_commit_whose_connection_broke_is_told_whether_it_was_stale(
    store: JobStore, elapse: Elapse
) -> None:
    """As after a long pause, when the server has ended the silent transaction."""
    stale = hold_new(store)
    with pytest.raises(StaleToken), store.commit(stale, to_text):
        Group.objects.create(name="effect")
        _kill_other_backends()
        _elsewhere(lambda: elapse(PAST_TTL))
        _elsewhere(lambda: claim(store, owner=OTHER))
        Group.objects.create(name="more")
    refusal = store.events("a")[-1]
    assert (refusal.kind, refusal.token) == (Kind.STALE_WRITE_REFUSED, stale.token)
    assert not Group.objects.exists()


def test_a_commit_whose_connection_broke_is_no_more_while_the_job_is_held(
    store: JobStore,
) -> None:
    grant = hold_new(store)
    with pytest.raises(OperationalError), store.commit(grant, to_text):
        _kill_other_backends()
        Group.objects.create(name="effect")
    assert store.renew([grant]).lost == frozenset()
    commit(store, grant)
    assert Group.objects.count() == 1


def test_a_commit_whose_answer_was_lost_is_a_success(store: JobStore) -> None:
    grant = hold_new(store)
    with store.commit(grant, to_text):
        Group.objects.create(name="effect")
        # The server carries COMMIT out; its client never hears of it.
        _lose_the_answer_of_commit()
    assert store.get("a").state == State.SUCCEEDED  # type: ignore[union-attr]
    assert [event.kind for event in store.events("a")].count(Kind.STALE_WRITE_REFUSED) == 0
    assert Group.objects.count() == 1


def _lose_the_answer_of_commit() -> None:
    connection = connections["default"]
    commit = connection._commit

    def lose() -> None:
        connection._commit = commit
        commit()
        raise OperationalError

    connection._commit = lose


def _elsewhere(call: Callable[[], Any]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_closing, call).result(10)
