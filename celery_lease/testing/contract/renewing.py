"""What `renew` extends, and what it never revives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from celery_lease.job import Busy
from celery_lease.testing.contract.scene import (
    FAILURE,
    OTHER,
    PAST_TTL,
    TTL,
    Elapse,
    claim,
    finish,
    get,
    hold,
    hold_new,
    hold_outcome,
    near,
    new,
)

if TYPE_CHECKING:
    from celery_lease.stores.base import JobStore


class RenewalContract:
    """Tests of `renew`."""

    def test_renew_extends_to_now_and_ttl(self, store: JobStore, elapse: Elapse) -> None:
        grant = hold_new(store)
        elapse(TTL / 2)
        left = get(store).lease_until
        assert store.renew([grant]).lost == frozenset()
        assert left is not None
        assert near(get(store).lease_until, left + TTL / 2)
        elapse(TTL * 0.75)
        assert isinstance(claim(store, owner=OTHER), Busy)

    def test_renew_gives_each_its_own_ttl(self, store: JobStore) -> None:
        short, long = hold_new(store), replace(hold_new(store, new("b")), ttl=10 * TTL)
        assert store.renew([short, long]).lost == frozenset()
        until = get(store).lease_until
        assert until is not None
        assert near(get(store, "b").lease_until, until + 9 * TTL)

    def test_renew_never_revives_an_ended_lease(self, store: JobStore, elapse: Elapse) -> None:
        grant = hold_new(store)
        elapse(PAST_TTL)
        assert store.renew([grant]).lost == {grant}
        assert [lost.job_id for lost in store.expire(10)] == ["a"]

    def test_renew_refuses_who_was_replaced(self, store: JobStore, elapse: Elapse) -> None:
        old = hold_new(store)
        elapse(PAST_TTL)
        hold(store, owner=OTHER)
        before = get(store)
        assert store.renew([old]).lost == {old}
        assert get(store) == before

    def test_renew_refuses_another_token(self, store: JobStore) -> None:
        grant, before = hold_new(store), get(store)
        wrong = [replace(grant, token=grant.token + by, ttl=10 * TTL) for by in (-1, 1)]
        assert store.renew(wrong).lost == set(wrong)
        assert get(store) == before

    def test_renew_refuses_another_owner(self, store: JobStore) -> None:
        grant, before = hold_new(store), get(store)
        wrong = replace(grant, owner=OTHER, ttl=10 * TTL)
        assert store.renew([wrong]).lost == {wrong}
        assert get(store) == before

    def test_renew_refuses_what_was_handed_back(self, store: JobStore) -> None:
        released, failed = hold_new(store), hold_new(store, new("b"))
        store.release(released)
        store.fail(failed, FAILURE, retry_in=1.0)
        assert store.renew([released, failed]).lost == {released, failed}

    def test_renew_refuses_an_unknown_job(self, store: JobStore) -> None:
        unknown = replace(hold_new(store), job_id="unknown")
        assert store.renew([unknown]).lost == {unknown}

    def test_renew_keeps_the_others(self, store: JobStore, elapse: Elapse) -> None:
        lost = hold_new(store)
        elapse(PAST_TTL)
        kept = hold_new(store, new("b"))
        elapse(TTL / 2)
        assert store.renew([lost, kept]).lost == {lost}
        elapse(TTL * 0.75)
        assert isinstance(claim(store, "b", OTHER), Busy)

    def test_renew_of_nothing(self, store: JobStore) -> None:
        assert store.renew([]).lost == frozenset()

    def test_renew_lasts_until_settled(self, store: JobStore, elapse: Elapse) -> None:
        """Handing the outcome out may take longer than the ttl."""
        grant = hold_new(store)
        store.succeed(grant, "1")
        elapse(TTL / 2)
        assert store.renew([grant]).lost == frozenset()
        elapse(TTL * 0.75)
        assert isinstance(claim(store, owner=OTHER), Busy)
        store.settle(grant)
        assert store.renew([grant]).lost == {grant}

    def test_renew_covers_the_lease_of_an_outcome(self, store: JobStore, elapse: Elapse) -> None:
        store.succeed(hold_new(store), "1")
        elapse(PAST_TTL)
        grant = hold_outcome(store)
        elapse(TTL / 2)
        assert store.renew([grant]).lost == frozenset()

    def test_renew_of_a_finished_job_is_lost(self, store: JobStore) -> None:
        grant = finish(store)
        assert store.renew([grant]).lost == {grant}
