"""What operators do and see: cancel, replay, workers, counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from celery_lease.errors import StaleToken, WrongJobState
from celery_lease.job import Finished, Kind, State, Unsettled
from celery_lease.testing.contract.scene import (
    FAILURE,
    PAST_TTL,
    TTL,
    Elapse,
    bury,
    claim,
    due_ids,
    events_of,
    finish,
    get,
    hold,
    hold_new,
    hold_outcome,
    kinds,
    near,
    new,
    submit,
)

if TYPE_CHECKING:
    from celery_lease.stores.base import JobStore


class OperatingContract:
    """Tests of `cancel`, `replay`, the workers and `counts`."""

    def test_cancel_ends_a_waiting_job(self, store: JobStore) -> None:
        submit(store, replace(new(), delay=100.0))
        assert store.cancel("a", by="ops")
        job = get(store)
        assert (job.state, job.attempts, job.settled_at) == (State.CANCELLED, 0, None)
        assert near(job.completed_at, job.created_at)
        assert events_of(store, Kind.CANCELLED)[0].details == {"by": "ops"}
        assert due_ids(store) == {"a"}
        assert isinstance(claim(store), Unsettled)

    def test_cancel_fences_the_holder(self, store: JobStore) -> None:
        grant = hold_new(store)
        assert store.cancel("a", by="ops")
        assert get(store).lease_until is None
        assert store.renew([grant]).lost == {grant}
        with pytest.raises(StaleToken):
            store.succeed(grant, "1")
        assert (get(store).state, get(store).result) == (State.CANCELLED, None)
        assert due_ids(store) == {"a"}

    def test_cancel_ends_a_retry(self, store: JobStore) -> None:
        store.fail(hold_new(store), FAILURE, retry_in=100.0)
        assert store.cancel("a", by="ops")
        assert (get(store).state, get(store).failure) == (State.CANCELLED, FAILURE)

    def test_cancel_by_a_duplicate_s_id_is_for_all(self, store: JobStore) -> None:
        submit(store, new("a", key="k"))
        submit(store, new("b", key="k"))
        assert store.cancel("b", by="ops")
        assert get(store, "a").state is State.CANCELLED
        assert due_ids(store) == {"a", "b"}

    def test_cancel_comes_too_late_for_what_has_ended(self, store: JobStore) -> None:
        finish(store)
        bury(store, new("b"))
        before = [get(store), get(store, "b")]
        assert not store.cancel("a", by="ops")
        assert not store.cancel("b", by="ops")
        assert [get(store), get(store, "b")] == before

    def test_cancel_twice_is_once(self, store: JobStore) -> None:
        submit(store)
        assert store.cancel("a", by="ops")
        assert not store.cancel("a", by="ops")
        assert kinds(store).count(Kind.CANCELLED) == 1

    def test_cancel_of_an_unknown_job(self, store: JobStore) -> None:
        assert not store.cancel("unknown", by="ops")

    def test_cancel_with_nobody_waiting_is_settled(self, store: JobStore) -> None:
        submit(store, replace(new(), hands_over=False))
        store.cancel("a", by="ops")
        assert get(store).settled_at is not None
        assert isinstance(claim(store), Finished)
        assert due_ids(store) == set()

    def test_replay_starts_over(self, store: JobStore) -> None:
        grant = bury(store)
        store.settle(grant)
        job = store.replay("a", by="ops")
        assert (job.state, job.attempts, job.owner) == (State.PENDING, 0, "")
        assert (job.completed_at, job.settled_at, job.settle_attempts) == (None, None, 0)
        assert job.token == grant.token
        assert job == get(store)
        assert events_of(store, Kind.REPLAYED)[0].details == {"by": "ops"}
        assert due_ids(store) == {"a"}
        assert hold(store).attempt == 1

    def test_replay_starts_at_once(self, store: JobStore) -> None:
        submit(store, replace(new(), delay=100.0))
        store.cancel("a", by="ops")
        store.replay("a", by="ops")
        assert hold(store).attempt == 1

    def test_replay_with_nobody_waiting_runs_and_settles(self, store: JobStore) -> None:
        bury(store, replace(new(), hands_over=False))
        assert store.replay("a", by="ops").settled_at is None
        assert due_ids(store) == {"a"}
        assert store.succeed(hold(store), "1").settled_at is not None

    def test_replay_is_about_one_job(self, store: JobStore) -> None:
        bury(store)
        finish(store, new("b"))
        before = get(store, "b")
        store.replay("a", by="ops")
        assert get(store, "b") == before

    def test_replay_is_handed_out_anew(self, store: JobStore, elapse: Elapse) -> None:
        store.settle(bury(store))
        store.replay("a", by="ops")
        store.succeed(hold(store), "1")
        elapse(PAST_TTL)
        assert due_ids(store) == {"a"}
        assert store.settle(hold_outcome(store))

    def test_replay_is_handed_out_anew_to_duplicates(self, store: JobStore) -> None:
        """Every submission gets the recorded result, also who was told of the death."""
        store.settle(bury(store, new("a", key="k")))
        submit(store, new("b", key="k"))
        submit(store, replace(new("quiet", key="k"), hands_over=False))
        store.settle(hold_outcome(store, "b"))
        store.replay("a", by="ops")
        grant = hold(store)
        store.succeed(grant, "1")
        store.settle(grant)
        assert due_ids(store) == {"b"}

    def test_replay_fences_who_hands_the_old_outcome_out(self, store: JobStore) -> None:
        grant = bury(store)
        store.replay("a", by="ops")
        assert get(store).lease_until is None
        assert store.renew([grant]).lost == {grant}
        assert not store.settle(grant)
        assert get(store).settled_at is None

    def test_replay_forgets_the_expiry(self, store: JobStore, elapse: Elapse) -> None:
        submit(store, replace(new(), expires_in=100.0))
        elapse(101.0)
        hold_outcome(store)
        assert store.replay("a", by="ops").expires_at is None
        assert hold(store).attempt == 1

    def test_replay_is_for_the_dead_and_cancelled(self, store: JobStore) -> None:
        submit(store, new("pending"))
        hold_new(store, new("running"))
        finish(store, new("succeeded"))
        for task_id in ("pending", "running", "succeeded"):
            before = get(store, task_id)
            with pytest.raises(WrongJobState):
                store.replay(task_id, by="ops")
            assert get(store, task_id) == before

    def test_replay_of_an_unknown_job(self, store: JobStore) -> None:
        with pytest.raises(WrongJobState):
            store.replay("unknown", by="ops")

    def test_workers_are_listed_while_they_live(self, store: JobStore, elapse: Elapse) -> None:
        assert store.workers() == []
        store.register_worker("w2", ttl=100.0)
        store.register_worker("w1", ttl=50.0)
        assert store.workers() == ["w1", "w2"]
        elapse(60.0)
        assert store.workers() == ["w2"]
        store.register_worker("w2", ttl=100.0)
        elapse(60.0)
        assert store.workers() == ["w2"]

    def test_workers_can_be_forgotten(self, store: JobStore) -> None:
        store.register_worker("w1", ttl=100.0)
        store.forget_worker("w1")
        store.forget_worker("unknown")
        assert store.workers() == []

    def test_counts_of_nothing(self, store: JobStore) -> None:
        counts = store.counts()
        assert sum(counts.by_state.values()) == 0
        assert (counts.active_leases, counts.due, counts.oldest_pending) == (0, 0, None)

    def test_counts_by_state_and_age(self, store: JobStore, elapse: Elapse) -> None:
        submit(store, new("old"))
        elapse(TTL / 2)
        submit(store, new("young"))
        submit(store, replace(new("later"), delay=100.0))
        hold_new(store, new("running"))
        finish(store, new("succeeded"))
        counts = store.counts()
        expected = {State.PENDING: 3, State.RUNNING: 1, State.SUCCEEDED: 1}
        assert {state: n for state, n in counts.by_state.items() if n} == expected
        assert (counts.active_leases, counts.due) == (1, 2)
        assert near(counts.oldest_pending, TTL / 2)

    def test_counts_only_live_leases(self, store: JobStore, elapse: Elapse) -> None:
        hold_new(store)
        elapse(PAST_TTL)
        assert store.counts().active_leases == 0

    def test_a_lease_to_hand_over_runs_nothing(self, store: JobStore) -> None:
        grant = hold_new(store)
        with store.commit(grant, str):
            assert store.counts().active_leases == 1
        assert store.counts().active_leases == 0
