"""What `claim` answers, and what it counts."""

from __future__ import annotations

from dataclasses import replace

from celery_lease.clock import MICROSECONDS
from celery_lease.job import (
    Busy,
    Claimed,
    Finished,
    Gone,
    Kind,
    NotDue,
    OtherTask,
    State,
    Unsettled,
)
from celery_lease.stores.base import PUBLISH_HOLD, JobStore
from celery_lease.testing.contract.scene import (
    FAILURE,
    OTHER,
    OWNER,
    PAST_TTL,
    TTL,
    Elapse,
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


class ClaimContract:
    """Tests of `claim`."""

    def test_claim_gives_a_lease(self, store: JobStore) -> None:
        submit(store)
        answer = claim(store)
        assert isinstance(answer, Claimed)
        job, grant = answer.job, answer.grant
        assert (grant.job_id, grant.task_id, grant.owner, grant.ttl) == ("a", "a", OWNER, TTL)
        assert (job.state, job.owner, job.token) == (State.RUNNING, OWNER, grant.token)
        assert (job.attempts, grant.attempt) == (1, 1)
        assert near(job.started_at, job.created_at)
        assert near(job.lease_until, job.created_at + TTL)
        assert job == get(store)

    def test_claim_of_a_held_job_is_busy(self, store: JobStore) -> None:
        hold_new(store, new("a", key="k"))
        submit(store, new("b", key="k"))
        submit(store, replace(new("quiet", key="k"), hands_over=False))
        before = get(store)
        for task_id, owner in (("a", OWNER), ("a", OTHER), ("b", OTHER), ("quiet", OTHER)):
            answer = claim(store, task_id, owner)
            assert isinstance(answer, Busy)
            assert near(answer.until, before.lease_until)
        assert get(store) == before

    def test_claim_before_the_time_is_not_due(self, store: JobStore) -> None:
        """The refused message was the only one: the next is planned in its place."""
        submit(store, replace(new(), delay=100.0))
        store.published(["a"], republish_after=900.0)
        assert claim(store) == NotDue(get(store).available_at)
        assert get(store).next_publish_at == get(store).available_at
        assert (get(store).state, get(store).attempts) == (State.PENDING, 0)

    def test_claim_of_a_settled_job_is_finished(self, store: JobStore) -> None:
        finish(store)
        before, record = get(store), store.events("a")
        assert claim(store, owner=OTHER) == Finished(before)
        assert (get(store), store.events("a")) == (before, record)

    def test_claim_of_an_unknown_job_is_gone(self, store: JobStore) -> None:
        assert claim(store, "unknown") == Gone()

    def test_claim_for_another_task_is_refused(self, store: JobStore) -> None:
        submit(store)
        answer = store.claim("a", task="another.task", owner=OWNER, ttl=TTL)
        assert answer == OtherTask(new().task)
        assert get(store).state is State.PENDING

    def test_claim_by_a_duplicate_runs_the_one_job(self, store: JobStore) -> None:
        submit(store, new("a", key="k"))
        submit(store, new("b", key="k"))
        grant = hold(store, "b")
        assert (grant.job_id, grant.task_id) == ("a", "b")
        assert isinstance(claim(store, "a", OTHER), Busy)

    def test_a_claimed_job_is_not_published(self, store: JobStore, elapse: Elapse) -> None:
        hold_new(store)
        elapse(PUBLISH_HOLD + 1.0)
        assert due_ids(store) == set()

    def test_attempts_count_at_the_claim(self, store: JobStore, elapse: Elapse) -> None:
        """Not at the end, so that a task that kills its process is counted."""
        hold_new(store)
        assert get(store).attempts == 1
        elapse(PAST_TTL)
        assert hold(store).attempt == get(store).attempts == 2

    def test_tokens_follow_the_store_s_time(self, store: JobStore) -> None:
        """In microseconds, so that they grow even in a store that lost its data."""
        grant = hold_new(store)
        assert near(grant.token / MICROSECONDS, get(store).created_at)

    def test_tokens_only_grow(self, store: JobStore, elapse: Elapse) -> None:
        """Through release, retry, expiry, take-over, replay and claims of the outcome."""
        grants = [hold_new(store)]
        store.release(grants[-1])
        grants.append(hold(store))
        store.fail(grants[-1], FAILURE, retry_in=0.0)
        grants.append(hold(store))
        elapse(PAST_TTL)
        store.expire(10)
        grants.append(hold(store))
        elapse(PAST_TTL)
        grants.append(hold(store, owner=OTHER))
        store.cancel("a", by="ops")
        grants.append(hold_outcome(store))
        elapse(PAST_TTL)
        grants.append(hold_outcome(store))
        store.replay("a", by="ops")
        grants.append(hold(store))
        tokens = [grant.token for grant in grants]
        assert tokens == sorted(set(tokens))
        assert get(store).token == tokens[-1]

    def test_claim_takes_over_an_ended_lease(self, store: JobStore, elapse: Elapse) -> None:
        old = hold_new(store)
        elapse(PAST_TTL)
        answer = claim(store, owner=OTHER)
        assert isinstance(answer, Claimed)
        assert (answer.job.owner, answer.grant.attempt) == (OTHER, 2)
        assert kinds(store) == [Kind.CREATED, Kind.CLAIMED, Kind.LEASE_EXPIRED, Kind.CLAIMED]
        lost = events_of(store, Kind.LEASE_EXPIRED)[0]
        assert (lost.token, lost.owner) == (old.token, OWNER)

    def test_claim_after_the_last_attempt_hands_out_a_dead_job(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        hold_new(store, replace(new(), max_attempts=1))
        elapse(PAST_TTL)
        answer = claim(store, owner=OTHER)
        assert isinstance(answer, Unsettled)
        assert answer.job.state is State.DEAD
        assert answer.job.failure is not None
        assert answer.job.failure.code == "HOLDER_LOST"

    def test_claim_of_an_expired_job_cancels_it(self, store: JobStore, elapse: Elapse) -> None:
        submit(store, replace(new(), expires_in=100.0))
        elapse(101.0)
        answer = claim(store)
        assert isinstance(answer, Unsettled)
        assert (answer.job.state, answer.job.attempts) == (State.CANCELLED, 0)
        cancelled = events_of(store, Kind.CANCELLED)
        assert [event.details for event in cancelled] == [{"reason": "expired"}]

    def test_claim_of_an_expired_retry_cancels_it(self, store: JobStore, elapse: Elapse) -> None:
        grant = hold_new(store, replace(new(), expires_in=100.0))
        store.fail(grant, FAILURE, retry_in=101.0)
        elapse(102.0)
        assert isinstance(claim(store), Unsettled)
        assert get(store).state is State.CANCELLED

    def test_claim_of_an_expired_job_nobody_waits_for_is_finished(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        submit(store, replace(new(), expires_in=100.0, hands_over=False))
        elapse(101.0)
        answer = claim(store)
        assert isinstance(answer, Finished)
        assert answer.job.state is State.CANCELLED

    def test_expires_at_does_not_end_a_running_attempt(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        grant = hold_new(store, replace(new(), expires_in=10.0))
        elapse(11.0)
        assert isinstance(claim(store, owner=OTHER), Busy)
        assert store.succeed(grant, "1").state is State.SUCCEEDED

    def test_claim_hands_out_an_unsettled_outcome(self, store: JobStore, elapse: Elapse) -> None:
        old = hold_new(store)
        store.succeed(old, "1")
        elapse(PAST_TTL)
        record = kinds(store)
        answer = claim(store, owner=OTHER)
        assert isinstance(answer, Unsettled)
        assert (answer.message, answer.body) == (new().message, new().body)
        assert (answer.grant.attempt, answer.grant.owner) == (0, OTHER)
        assert answer.grant.token > old.token
        assert (answer.job.state, answer.job.result) == (State.SUCCEEDED, "1")
        assert (answer.job.attempts, answer.job.settle_attempts) == (1, 1)
        assert kinds(store) == record, "no state changed"

    def test_an_outcome_being_handed_out_is_busy(self, store: JobStore, elapse: Elapse) -> None:
        store.succeed(hold_new(store), "1")
        assert isinstance(claim(store, owner=OTHER), Busy)
        elapse(PAST_TTL)
        hold_outcome(store)
        assert isinstance(claim(store, owner=OWNER), Busy)

    def test_a_settled_submission_is_finished_while_another_is_handed_out(
        self, store: JobStore
    ) -> None:
        finish(store, new("a", key="k"))
        submit(store, new("b", key="k"))
        hold_outcome(store, "b")
        assert isinstance(claim(store, "a"), Finished)

    def test_expires_at_does_not_touch_an_outcome(self, store: JobStore, elapse: Elapse) -> None:
        store.succeed(hold_new(store, replace(new(), expires_in=100.0)), "1")
        elapse(101.0)
        hold_outcome(store)
        assert get(store).state is State.SUCCEEDED

    def test_a_duplicate_is_handed_its_own_message(self, store: JobStore, elapse: Elapse) -> None:
        grant = hold_new(store, new("a", key="k"))
        submit(store, new("b", key="k"))
        store.succeed(grant, "1")
        elapse(PAST_TTL)
        answer = claim(store, "b", OTHER)
        assert isinstance(answer, Unsettled)
        assert (answer.message, answer.body) == (new("b").message, new("b").body)
        assert (answer.grant.job_id, answer.grant.task_id) == ("a", "b")

    def test_a_duplicate_refused_as_busy_comes_back(self, store: JobStore, elapse: Elapse) -> None:
        """Its message is used up, and its job ends no second time to make it due."""
        grant = hold_new(store, new("a", key="k"))
        store.succeed(grant, "1")
        submit(store, new("b", key="k"))
        store.published(["b"], republish_after=10_000.0)
        assert isinstance(claim(store, "b", OTHER), Busy)
        elapse(PAST_TTL)
        assert "b" in due_ids(store)
