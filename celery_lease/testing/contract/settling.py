"""When an outcome counts as handed out, for each submission on its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from celery_lease.job import Busy, Finished, Kind, State
from celery_lease.testing.contract.scene import (
    OTHER,
    PAST_TTL,
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
from celery_lease.testing.contract.stale import LOSSES

if TYPE_CHECKING:
    from celery_lease.lease import Grant
    from celery_lease.stores.base import JobStore


def _succeeded_with_duplicate(store: JobStore) -> Grant:
    grant = hold_new(store, new("a", key="k"))
    submit(store, new("b", key="k"))
    store.succeed(grant, "1")
    return grant


class SettlingContract:
    """Tests of `settle`."""

    def test_settle_ends_the_hand_over(self, store: JobStore, elapse: Elapse) -> None:
        grant = hold_new(store)
        store.succeed(grant, "1")
        assert store.settle(grant)
        job = get(store)
        assert near(job.settled_at, job.completed_at)
        assert (job.state, job.lease_until, job.next_publish_at) == (State.SUCCEEDED, None, None)
        assert [event.details for event in events_of(store, Kind.SETTLED)] == [{"task_id": "a"}]
        elapse(PAST_TTL)
        assert isinstance(claim(store), Finished)
        assert due_ids(store) == set()

    def test_settle_again_changes_nothing(self, store: JobStore) -> None:
        grant = finish(store)
        before = get(store)
        assert store.settle(grant)
        assert get(store) == before
        assert kinds(store).count(Kind.SETTLED) == 1

    def test_settle_after_the_lease_counts_while_nobody_took_it(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        """The outcome is with Celery; handing it out again would serve nobody."""
        grant = hold_new(store)
        store.succeed(grant, "1")
        elapse(PAST_TTL)
        store.expire(10)
        assert store.settle(grant)

    def test_settle_needs_an_end(self, store: JobStore) -> None:
        grant, before = hold_new(store), get(store)
        assert not store.settle(grant)
        assert get(store) == before
        assert kinds(store)[-1] is Kind.STALE_WRITE_REFUSED

    def test_settle_refuses_who_was_replaced(self, store: JobStore, elapse: Elapse) -> None:
        old = hold_new(store)
        store.succeed(old, "1")
        elapse(PAST_TTL)
        current = hold_outcome(store)
        before = get(store)
        assert not store.settle(old)
        assert get(store) == before
        refusal = events_of(store, Kind.STALE_WRITE_REFUSED)[0]
        assert (refusal.token, refusal.details["what"]) == (old.token, "settle")
        assert store.settle(current)

    @pytest.mark.parametrize(
        "loss", ["expired", "expired until dead", "taken over", "cancelled", "retried"]
    )
    def test_settle_refuses_who_lost_the_job(
        self, store: JobStore, elapse: Elapse, loss: str
    ) -> None:
        """Whoever cancelled or expired the job made an outcome that its holder never saw."""
        grant = hold_new(store)
        LOSSES[loss](store, elapse, grant)
        before = get(store)
        assert not store.settle(grant)
        assert get(store) == before

    def test_settle_refuses_the_holder_of_a_last_attempt_that_expired(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        """No later claim gave a new token, yet the death is not its holder's to settle."""
        grant = hold_new(store, replace(new(), max_attempts=1))
        elapse(PAST_TTL)
        store.expire(10)
        assert not store.settle(grant)
        assert get(store).settled_at is None

    def test_settle_refuses_another_owner(self, store: JobStore) -> None:
        grant = bury(store)
        assert not store.settle(replace(grant, owner=OTHER))
        assert get(store).settled_at is None

    def test_settle_refuses_a_job_that_is_gone(self, store: JobStore) -> None:
        grant = hold_new(store)
        assert not store.settle(replace(grant, job_id="unknown", task_id="unknown"))

    def test_each_submission_settles_by_itself(self, store: JobStore) -> None:
        store.settle(_succeeded_with_duplicate(store))
        assert isinstance(claim(store, "a"), Finished)
        assert store.settle(hold_outcome(store, "b"))
        assert isinstance(claim(store, "b"), Finished)
        settled = [event.details["task_id"] for event in events_of(store, Kind.SETTLED)]
        assert settled == ["a", "b"]

    def test_a_duplicate_that_ran_leaves_the_job_s_own_id_open(self, store: JobStore) -> None:
        submit(store, new("a", key="k"))
        submit(store, new("b", key="k"))
        grant = hold(store, "b")
        store.succeed(grant, "1")
        store.settle(grant)
        assert isinstance(claim(store, "b"), Finished)
        assert get(store).settled_at is None
        assert due_ids(store) == {"a"}
        assert store.settle(hold_outcome(store, "a"))

    def test_settling_one_wakes_the_others(self, store: JobStore) -> None:
        """They were refused as busy meanwhile, and nothing else would bring them back."""
        grant = _succeeded_with_duplicate(store)
        store.published(["b"], republish_after=10_000.0)
        assert isinstance(claim(store, "b", OTHER), Busy)
        assert due_ids(store) == set()
        store.settle(grant)
        assert due_ids(store) == {"b"}

    def test_a_hand_over_that_keeps_failing_is_given_up(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        store.succeed(hold_new(store, replace(new(), max_attempts=2)), "1")
        for _ in range(2):
            elapse(PAST_TTL)
            hold_outcome(store)
        elapse(PAST_TTL)
        assert isinstance(claim(store), Finished)
        job = get(store)
        assert (job.state, job.settle_attempts, job.attempts) == (State.SUCCEEDED, 2, 1)
        assert job.settled_at is not None
        failed = events_of(store, Kind.HANDOVER_FAILED)
        assert [event.details for event in failed] == [{"task_id": "a"}]
        elapse(PAST_TTL)
        assert due_ids(store) == set()

    def test_a_hand_over_is_given_up_for_one_submission_only(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        grant = hold_new(store, replace(new("a", key="k"), max_attempts=1))
        submit(store, new("b", key="k"))
        store.succeed(grant, "1")
        elapse(PAST_TTL)
        hold_outcome(store, "a")
        elapse(PAST_TTL)
        assert isinstance(claim(store, "a"), Finished)
        assert "b" in due_ids(store)
        assert store.settle(hold_outcome(store, "b"))
