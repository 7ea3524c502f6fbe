"""The connection broke inside a commit: what that means is read from the job itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connections

from celery_lease.errors import StaleToken, StoreUnavailable
from celery_lease.job import Kind, State
from celery_lease.message import to_text
from celery_lease.testing.contract.scene import OTHER, PAST_TTL, claim, hold_new, kinds
from tests.django_store.holding import elsewhere, kill_others

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_lease.lease import Grant
    from celery_lease.stores.base import JobStore
    from celery_lease.testing.contract.scene import Elapse


class AnswerLostError(OperationalError):
    """As the driver reports a connection that broke while it waited."""


def losing_the_answer(whatever_happens: Callable[[Any], None]) -> None:
    """The answer to the next COMMIT on this connection never arrives."""
    wrapper = connections["default"]
    real = wrapper._commit

    def commit() -> None:
        del wrapper._commit
        whatever_happens(real)
        raise AnswerLostError("server closed the connection unexpectedly")

    wrapper._commit = commit


def commit(store: JobStore, grant: Grant, then: Callable[[], Any] = lambda: None) -> None:
    with store.commit(grant, to_text):
        Group.objects.create(name="effect")
        then()


def nothing_arrives(_: Any) -> None:
    connections["default"].connection.close()


def test_a_commit_that_happened_is_a_success(store: JobStore) -> None:
    grant = hold_new(store)
    commit(store, grant, lambda: losing_the_answer(lambda real: real()))
    assert store.get("a").state == State.SUCCEEDED  # type: ignore[union-attr]
    assert Group.objects.count() == 1
    assert Kind.STALE_WRITE_REFUSED not in kinds(store)


def test_a_commit_that_did_not_happen_is_an_outage(store: JobStore) -> None:
    grant = hold_new(store)
    with pytest.raises(StoreUnavailable):
        commit(store, grant, lambda: losing_the_answer(nothing_arrives))
    assert not Group.objects.exists()
    commit(store, grant)
    assert store.get("a").state == State.SUCCEEDED  # type: ignore[union-attr]


def test_a_commit_that_did_not_happen_before_a_take_over_is_refused(
    store: JobStore, elapse: Elapse
) -> None:
    grant = hold_new(store)

    def taken(_: Any) -> None:
        nothing_arrives(_)
        elsewhere(lambda: (elapse(PAST_TTL), claim(store, owner=OTHER)))

    with pytest.raises(StaleToken):
        commit(store, grant, lambda: losing_the_answer(taken))
    assert not Group.objects.exists()
    assert kinds(store)[-1] is Kind.STALE_WRITE_REFUSED


class TestBeforeTheEnd:
    """The server ended it while the caller's own statements ran."""

    @pytest.fixture
    def store(self, postgres_store: JobStore) -> JobStore:
        return postgres_store

    def test_a_holder_that_is_stale_by_then_is_told_so(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        """As after a long pause, when the server has ended the silent transaction."""
        stale = hold_new(store)
        with pytest.raises(StaleToken), store.commit(stale, to_text):
            Group.objects.create(name="effect")
            elsewhere(kill_others)
            elsewhere(lambda: (elapse(PAST_TTL), claim(store, owner=OTHER)))
            Group.objects.create(name="more")
        refusal = store.events("a")[-1]
        assert (refusal.kind, refusal.token) == (Kind.STALE_WRITE_REFUSED, stale.token)
        assert not Group.objects.exists()

    def test_while_the_job_is_held_it_is_the_callers_error(self, store: JobStore) -> None:
        grant = hold_new(store)
        with pytest.raises(OperationalError), store.commit(grant, to_text):
            elsewhere(kill_others)
            Group.objects.create(name="effect")
        assert store.renew([grant]).lost == frozenset()
        commit(store, grant)
        assert Group.objects.count() == 1

    def test_an_error_after_an_earlier_commit_is_not_taken_for_its_success(
        self, store: JobStore
    ) -> None:
        grant = hold_new(store)
        commit(store, grant)
        with pytest.raises(OperationalError), store.commit(grant, to_text):
            elsewhere(kill_others)
            Group.objects.create(name="second effect")


def test_an_error_of_the_callers_own_stays_what_it_is(store: JobStore) -> None:
    grant = hold_new(store)
    store.release(grant)
    with pytest.raises(OperationalError, match="another database"), store.commit(grant, to_text):
        raise OperationalError("another database is down")
