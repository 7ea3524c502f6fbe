"""How jobs are taken from holders whose lease has ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from celery_lease.job import Kind, State
from celery_lease.testing.contract.scene import (
    FAILURE,
    OTHER,
    OWNER,
    PAST_TTL,
    TASK,
    TTL,
    Elapse,
    due_ids,
    events_of,
    get,
    hold,
    hold_new,
    hold_outcome,
    kinds,
    near,
    new,
)

if TYPE_CHECKING:
    from celery_lease.stores.base import JobStore


class ExpiryContract:
    """Tests of `expire` and `expire_owner`."""

    def test_expire_tells_what_was_lost(self, store: JobStore, elapse: Elapse) -> None:
        grant = hold_new(store)
        elapse(PAST_TTL)
        (lost,) = store.expire(10)
        assert (lost.job_id, lost.task, lost.state) == ("a", TASK, State.PENDING)
        assert (lost.token, lost.owner) == (grant.token, OWNER)
        assert near(lost.age, PAST_TTL)

    def test_expire_makes_the_job_claimable(self, store: JobStore, elapse: Elapse) -> None:
        grant = hold_new(store)
        elapse(PAST_TTL)
        store.expire(10)
        job = get(store)
        assert (job.state, job.owner, job.lease_until) == (State.PENDING, "", None)
        assert (job.attempts, job.token) == (1, grant.token)
        assert due_ids(store) == {"a"}
        assert hold(store, owner=OTHER).attempt == 2

    def test_expire_records_whose_lease_ended(self, store: JobStore, elapse: Elapse) -> None:
        grant = hold_new(store)
        elapse(PAST_TTL)
        store.expire(10)
        assert kinds(store) == [Kind.CREATED, Kind.CLAIMED, Kind.LEASE_EXPIRED]
        event = events_of(store, Kind.LEASE_EXPIRED)[0]
        assert (event.token, event.owner) == (grant.token, OWNER)

    def test_expire_leaves_live_leases_alone(self, store: JobStore, elapse: Elapse) -> None:
        hold_new(store)
        elapse(TTL / 2)
        before = get(store)
        assert store.expire(10) == []
        assert get(store) == before

    def test_expire_leaves_renewed_leases_alone(self, store: JobStore, elapse: Elapse) -> None:
        grant = hold_new(store)
        elapse(TTL / 2)
        store.renew([grant])
        elapse(TTL * 0.75)
        assert store.expire(10) == []

    def test_expire_reports_each_job_once(self, store: JobStore, elapse: Elapse) -> None:
        for task_id in ("a", "b", "c"):
            hold_new(store, new(task_id))
        elapse(PAST_TTL)
        batches = [[lost.job_id for lost in store.expire(2)] for _ in range(3)]
        assert [len(batch) for batch in batches] == [2, 1, 0]
        assert {job_id for batch in batches for job_id in batch} == {"a", "b", "c"}

    def test_expire_of_the_last_attempt_is_death(self, store: JobStore, elapse: Elapse) -> None:
        hold_new(store, replace(new(), max_attempts=1))
        elapse(PAST_TTL)
        (lost,) = store.expire(10)
        job = get(store)
        assert lost.state is job.state is State.DEAD
        assert job.failure is not None
        assert (job.failure.code, job.failure.retryable) == ("HOLDER_LOST", False)
        assert (job.lease_until, job.settled_at) == (None, None)
        assert kinds(store)[-2:] == [Kind.LEASE_EXPIRED, Kind.DEAD]
        assert events_of(store, Kind.DEAD)[0].details == {"code": "HOLDER_LOST"}
        assert due_ids(store) == {"a"}

    def test_expire_of_a_hand_over_makes_it_due_again(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        """The job has ended, so nobody lost it; only its outcome is handed out again."""
        store.succeed(hold_new(store), "1")
        store.published(["a"], republish_after=10_000.0)
        elapse(PAST_TTL)
        assert store.expire(10) == []
        assert (get(store).state, get(store).lease_until) == (State.SUCCEEDED, None)
        assert Kind.LEASE_EXPIRED not in kinds(store)
        assert due_ids(store) == {"a"}
        assert hold_outcome(store).attempt == 0

    def test_expire_owner_takes_all_from_that_owner(self, store: JobStore) -> None:
        for task_id, owner in (("a", OWNER), ("b", OWNER), ("c", OTHER)):
            hold_new(store, new(task_id), owner)
        lost = store.expire_owner(OWNER, "exit code 9")
        assert {one.job_id for one in lost} == {"a", "b"}
        states = [get(store, task_id).state for task_id in ("a", "b", "c")]
        assert states == [State.PENDING, State.PENDING, State.RUNNING]
        assert due_ids(store) == {"a", "b"}
        assert store.expire_owner(OWNER, "exit code 9") == []

    def test_expire_owner_counts_and_tells_why(self, store: JobStore) -> None:
        grant = hold_new(store)
        store.expire_owner(OWNER, "exit code 9")
        event = events_of(store, Kind.FORCE_EXPIRED)[0]
        assert (event.token, event.owner) == (grant.token, OWNER)
        assert event.details == {"reason": "exit code 9"}
        assert (get(store).attempts, get(store).owner) == (1, "")

    def test_expire_owner_buries_after_the_last_attempt(self, store: JobStore) -> None:
        hold_new(store, replace(new(), max_attempts=1))
        (lost,) = store.expire_owner(OWNER, "exit code 9")
        assert lost.state is State.DEAD
        failure = get(store).failure
        assert failure is not None
        assert (failure.code, failure.message) == ("HOLDER_LOST", "exit code 9")

    def test_expire_owner_frees_the_hand_over_it_held(self, store: JobStore) -> None:
        store.succeed(hold_new(store), "1")
        store.published(["a"], republish_after=10_000.0)
        assert store.expire_owner(OWNER, "exit code 9") == []
        assert due_ids(store) == {"a"}

    def test_expire_owner_is_about_leases_not_history(self, store: JobStore) -> None:
        """The owner may have died long after it ended its job."""
        grant = hold_new(store)
        store.fail(grant, FAILURE, retry_in=100.0)
        assert store.expire_owner(OWNER, "exit code 9") == []
        assert (get(store).state, get(store).failure) == (State.RETRY_WAIT, FAILURE)
