"""How attempts end: succeed, fail, release, and what is kept on the way."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from celery_lease.job import Claimed, Finished, Kind, NotDue, State
from celery_lease.stores.base import JobStore, Replacement
from celery_lease.testing.contract.scene import (
    FAILURE,
    OTHER,
    PAST_TTL,
    Elapse,
    bury,
    claim,
    due_ids,
    events_of,
    get,
    hold,
    hold_new,
    hold_outcome,
    kinds,
    near,
    new,
    submit,
)


class EndingContract:
    """Tests of `succeed`, `fail`, `release`, `amend`, `save_checkpoint` and `commit`."""

    def test_succeed_records_the_result(self, store: JobStore) -> None:
        grant = hold_new(store)
        job = store.succeed(grant, '{"ä": 1}')
        assert (job.state, job.result, job.failure) == (State.SUCCEEDED, '{"ä": 1}', None)
        assert (job.token, job.owner) == (grant.token, grant.owner)
        assert near(job.completed_at, job.started_at)
        assert job == get(store)

    def test_succeed_leaves_the_lease_to_settling(self, store: JobStore) -> None:
        job = store.succeed(hold_new(store), "1")
        assert job.settled_at is None
        assert job.lease_until is not None

    def test_succeed_as_settled_leaves_the_duplicates_to_be_handed_out(
        self, store: JobStore
    ) -> None:
        grant = hold_new(store, new("a", key="k"))
        submit(store, new("b", key="k"))
        store.succeed(grant, None, settled=True, reason="replaced")
        assert due_ids(store) == {"b"}

    def test_succeed_names_what_was_ignored(self, store: JobStore) -> None:
        job = store.succeed(hold_new(store), None, reason="ignored")
        assert (job.state, job.settled_at) == (State.SUCCEEDED, None)
        assert events_of(store, Kind.SUCCEEDED)[0].details == {"reason": "ignored"}

    def test_succeed_as_replaced_is_settled_in_the_same_step(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        job = store.succeed(hold_new(store), None, settled=True, reason="replaced")
        assert (job.state, job.settled_at is None) == (State.SUCCEEDED, False)
        assert job.lease_until is None
        assert Kind.REPLACED in kinds(store)
        elapse(PAST_TTL)
        assert isinstance(claim(store), Finished)
        assert due_ids(store) == set()

    def test_late_success_counts_while_nobody_took_the_job(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        """An ended lease alone takes nothing away: the effect is there, and nobody else has run."""
        grant = hold_new(store)
        elapse(PAST_TTL)
        assert store.succeed(grant, "1").state is State.SUCCEEDED

    def test_late_failure_counts_while_nobody_took_the_job(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        failed, released = hold_new(store), hold_new(store, new("b"))
        elapse(PAST_TTL)
        assert store.fail(failed, FAILURE, retry_in=1.0).state is State.RETRY_WAIT
        assert store.release(released).state is State.PENDING

    def test_fail_schedules_a_retry(self, store: JobStore, elapse: Elapse) -> None:
        grant = hold_new(store)
        job = store.fail(grant, FAILURE, retry_in=100.0)
        assert (job.state, job.owner, job.lease_until) == (State.RETRY_WAIT, "", None)
        assert (job.failure, job.attempts, job.token) == (FAILURE, 1, grant.token)
        assert near(job.available_at, job.created_at + 100.0)
        assert job.next_publish_at == job.available_at
        assert isinstance(claim(store), NotDue)
        elapse(101.0)
        assert due_ids(store) == {"a"}
        assert hold(store).attempt == 2

    def test_a_retry_is_recorded_with_its_reason(self, store: JobStore) -> None:
        grant = hold_new(store)
        store.fail(grant, FAILURE, retry_in=100.0)
        event = events_of(store, Kind.RETRY_SCHEDULED)[0]
        assert event.details == {"code": FAILURE.code, "seconds": 100.0}
        assert (event.token, event.owner) == (grant.token, grant.owner)

    def test_fail_for_good_buries_the_job(self, store: JobStore) -> None:
        bury(store)
        job = get(store)
        assert (job.state, job.failure, job.settled_at) == (State.DEAD, FAILURE, None)
        assert near(job.completed_at, job.created_at)
        assert events_of(store, Kind.DEAD)[0].details == {"code": FAILURE.code}

    def test_success_forgets_the_failures_before_it(self, store: JobStore) -> None:
        store.fail(hold_new(store), FAILURE, retry_in=0.0)
        assert store.succeed(hold(store), "1").failure is None

    def test_a_retry_can_replace_the_message(self, store: JobStore, elapse: Elapse) -> None:
        """The fingerprint stays that of the first submission, so its key is still its own."""
        grant = hold_new(store, new("a", key="k"))
        store.fail(grant, FAILURE, 1.0, Replacement("other", b"\x00other", "(2,)"))
        job = get(store)
        assert (job.message, job.body, job.arguments) == ("other", b"\x00other", "(2,)")
        elapse(2.0)
        assert [(due.message, due.body) for due in store.due(10)] == [("other", b"\x00other")]
        assert submit(store, new("b", key="k")).job.id == "a"

    def test_release_takes_its_claim_back(self, store: JobStore) -> None:
        grant = hold_new(store)
        job = store.release(grant, reason="stopping")
        assert (job.state, job.attempts, job.owner) == (State.PENDING, 0, "")
        assert (job.lease_until, job.token) == (None, grant.token)
        assert events_of(store, Kind.RELEASED)[0].details["reason"] == "stopping"
        assert due_ids(store) == {"a"}
        assert isinstance(claim(store), Claimed)

    def test_release_with_a_delay_defers(self, store: JobStore) -> None:
        job = store.release(hold_new(store), delay=100.0, reason="later")
        assert (job.state, job.attempts) == (State.PENDING, 0)
        assert near(job.available_at, job.created_at + 100.0)
        assert job.next_publish_at == job.available_at
        assert events_of(store, Kind.DEFERRED)[0].details == {"reason": "later", "seconds": 100.0}
        assert isinstance(claim(store), NotDue)

    def test_release_never_uses_attempts_up(self, store: JobStore) -> None:
        submit(store, replace(new(), max_attempts=2))
        for _ in range(4):
            store.release(hold(store))
        assert hold(store).attempt == 1

    def test_amend_gives_a_missing_result(self, store: JobStore) -> None:
        grant = hold_new(store)
        store.succeed(grant, None)
        store.amend(grant, "1")
        assert get(store).result == "1"

    def test_amend_never_overwrites(self, store: JobStore) -> None:
        grant = hold_new(store)
        store.succeed(grant, "1")
        store.amend(grant, "2")
        assert get(store).result == "1"

    def test_a_checkpoint_reaches_the_next_attempt(self, store: JobStore, elapse: Elapse) -> None:
        grant = hold_new(store)
        store.save_checkpoint(grant, '{"page": 1}')
        store.save_checkpoint(grant, '{"page": 2}')
        elapse(PAST_TTL)
        answer = claim(store, owner=OTHER)
        assert isinstance(answer, Claimed)
        assert answer.job.checkpoint == '{"page": 2}'

    def test_nobody_waiting_settles_at_the_end(self, store: JobStore, elapse: Elapse) -> None:
        job = store.succeed(hold_new(store, replace(new(), hands_over=False)), "1")
        assert near(job.settled_at, job.completed_at)
        assert job.lease_until is None
        assert isinstance(claim(store), Finished)
        elapse(PAST_TTL)
        assert due_ids(store) == set()

    def test_nobody_waiting_settles_a_failure_too(self, store: JobStore) -> None:
        bury(store, replace(new(), hands_over=False))
        assert get(store).settled_at is not None
        assert get(store).lease_until is None

    def test_nobody_waiting_still_serves_a_duplicate(self, store: JobStore) -> None:
        grant = hold_new(store, replace(new("a", key="k"), hands_over=False))
        submit(store, new("b", key="k"))
        store.succeed(grant, "1")
        assert due_ids(store) == {"b"}
        assert hold_outcome(store, "b").task_id == "b"

    def test_a_duplicate_that_ran_keeps_its_lease_until_it_settles(self, store: JobStore) -> None:
        """Though nobody waits under the job's own id, its holder hands an outcome out."""
        submit(store, replace(new("a", key="k"), hands_over=False))
        submit(store, new("b", key="k"))
        grant = hold(store, "b")
        assert store.succeed(grant, "1").lease_until is not None
        assert due_ids(store) == set()
        assert store.settle(grant)
        assert isinstance(claim(store, "b"), Finished)

    def test_commit_ends_the_job(self, store: JobStore) -> None:
        grant = hold_new(store)
        with store.commit(grant, json.dumps) as done:
            done.result = {"status": 200}
        assert (get(store).state, get(store).result) == (State.SUCCEEDED, '{"status": 200}')

    def test_commit_without_a_result_leaves_it_open(self, store: JobStore) -> None:
        grant = hold_new(store)
        with store.commit(grant, json.dumps):
            pass
        assert (get(store).state, get(store).result) == (State.SUCCEEDED, None)

    def test_an_error_in_commit_ends_nothing(self, store: JobStore) -> None:
        grant, before = hold_new(store), get(store)
        with pytest.raises(ZeroDivisionError), store.commit(grant, json.dumps):
            _ = 1 / 0
        assert get(store) == before
