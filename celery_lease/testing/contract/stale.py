"""Who no longer holds a job writes nothing, is told, and is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from celery_lease.errors import StaleToken
from celery_lease.job import Kind
from celery_lease.lease import Grant
from celery_lease.stores.base import JobStore
from celery_lease.testing.contract.scene import (
    FAILURE,
    OTHER,
    OWNER,
    PAST_TTL,
    Elapse,
    events_of,
    get,
    hold,
    hold_new,
    hold_outcome,
    new,
)

Write = Callable[[JobStore, Grant], object]
Loss = Callable[[JobStore, Elapse, Grant], object]


def _commit(store: JobStore, grant: Grant) -> None:
    with store.commit(grant, json.dumps):
        pass


#: Every write of a running attempt.
WRITES: dict[str, Write] = {
    "succeed": lambda store, grant: store.succeed(grant, "stale"),
    "succeed settled": lambda store, grant: store.succeed(grant, "stale", settled=True),
    "fail": lambda store, grant: store.fail(grant, FAILURE, retry_in=1.0),
    "fail for good": lambda store, grant: store.fail(grant, FAILURE, retry_in=None),
    "release": lambda store, grant: store.release(grant),
    "checkpoint": lambda store, grant: store.save_checkpoint(grant, "stale"),
    "commit": _commit,
}


def _expired(store: JobStore, elapse: Elapse, _grant: Grant) -> None:
    elapse(PAST_TTL)
    store.expire(10)


def _expired_dead(store: JobStore, elapse: Elapse, grant: Grant) -> None:
    for _ in range(get(store).max_attempts - 1):
        _expired(store, elapse, grant)
        grant = hold(store, owner=OTHER)
    _expired(store, elapse, grant)


def _taken_over(store: JobStore, elapse: Elapse, _grant: Grant) -> None:
    elapse(PAST_TTL)
    hold(store, owner=OTHER)


def _taken_over_by_itself(store: JobStore, elapse: Elapse, _grant: Grant) -> None:
    elapse(PAST_TTL)
    hold(store, owner=OWNER)


def _replayed(store: JobStore, _elapse: Elapse, _grant: Grant) -> None:
    store.cancel("a", by="ops")
    store.replay("a", by="ops")


#: Every way to lose a job.
LOSSES: dict[str, Loss] = {
    "expired": _expired,
    "expired until dead": _expired_dead,
    "owner expired": lambda store, _elapse, grant: store.expire_owner(grant.owner, "exit 9"),
    "taken over": _taken_over,
    "taken over by the same owner": _taken_over_by_itself,
    "cancelled": lambda store, _elapse, _grant: store.cancel("a", by="ops"),
    "cancelled and replayed": _replayed,
    "released": lambda store, _elapse, grant: store.release(grant),
    "retried": lambda store, _elapse, grant: store.fail(grant, FAILURE, retry_in=0.0),
    "succeeded": lambda store, _elapse, grant: store.succeed(grant, "first"),
    "failed": lambda store, _elapse, grant: store.fail(grant, FAILURE, retry_in=None),
}


class StaleCallerContract:
    """Tests of every write under a grant that no longer holds."""

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("write", WRITES)
    def test_a_stale_write_is_refused_and_recorded(
        self, store: JobStore, elapse: Elapse, write: str, loss: str
    ) -> None:
        grant = hold_new(store)
        LOSSES[loss](store, elapse, grant)
        before = get(store)
        with pytest.raises(StaleToken):
            WRITES[write](store, grant)
        assert get(store) == before
        refusal = events_of(store, Kind.STALE_WRITE_REFUSED)
        assert [(event.token, event.owner) for event in refusal] == [(grant.token, OWNER)]

    @pytest.mark.parametrize("write", WRITES)
    def test_another_token_writes_nothing(self, store: JobStore, write: str) -> None:
        """Neither one of the past nor one that was never given."""
        grant, before = hold_new(store), get(store)
        for by in (-1, 1):
            with pytest.raises(StaleToken):
                WRITES[write](store, replace(grant, token=grant.token + by))
        assert get(store) == before

    @pytest.mark.parametrize("write", WRITES)
    def test_another_owner_writes_nothing(self, store: JobStore, write: str) -> None:
        grant, before = hold_new(store), get(store)
        with pytest.raises(StaleToken):
            WRITES[write](store, replace(grant, owner=OTHER))
        assert get(store) == before

    @pytest.mark.parametrize("write", WRITES)
    def test_a_write_to_a_job_that_is_gone_is_refused(self, store: JobStore, write: str) -> None:
        grant = replace(hold_new(store), job_id="unknown", task_id="unknown")
        with pytest.raises(StaleToken):
            WRITES[write](store, grant)

    def test_a_refusal_names_the_write_and_the_current_token(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        old = hold_new(store)
        elapse(PAST_TTL)
        current = hold(store, owner=OTHER)
        with pytest.raises(StaleToken):
            store.succeed(old, "stale")
        event = events_of(store, Kind.STALE_WRITE_REFUSED)[0]
        assert event.details == {"what": "succeed", "current": str(current.token)}

    def test_a_refusal_is_recorded_even_without_audit(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        """The record of refused workers is a promise; the other events are an option."""
        old = hold_new(store, replace(new(), audit="off"))
        elapse(PAST_TTL)
        hold(store, owner=OTHER)
        with pytest.raises(StaleToken):
            store.succeed(old, "stale")
        assert [event.token for event in store.events("a")] == [old.token]

    def test_a_stale_amend_is_refused(self, store: JobStore, elapse: Elapse) -> None:
        old = hold_new(store)
        store.succeed(old, None)
        elapse(PAST_TTL)
        hold_outcome(store)
        before = get(store)
        with pytest.raises(StaleToken):
            store.amend(old, "stale")
        assert get(store) == before
        assert [e.token for e in events_of(store, Kind.STALE_WRITE_REFUSED)] == [old.token]

    @pytest.mark.parametrize("loss", ["expired", "taken over", "cancelled", "retried", "failed"])
    def test_amend_needs_a_success_of_its_own(
        self, store: JobStore, elapse: Elapse, loss: str
    ) -> None:
        grant = hold_new(store)
        LOSSES[loss](store, elapse, grant)
        before = get(store)
        with pytest.raises(StaleToken):
            store.amend(grant, "stale")
        assert get(store) == before

    def test_a_successor_s_result_survives_the_zombie(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        zombie = hold_new(store)
        elapse(PAST_TTL)
        successor = hold(store, owner=OTHER)
        store.succeed(successor, "successor")
        assert store.settle(successor)
        with pytest.raises(StaleToken):
            store.succeed(zombie, "zombie")
        assert not store.settle(zombie)
        assert get(store).result == "successor"
