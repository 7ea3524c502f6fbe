"""What `submit` records, joins and refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from celery_lease.errors import JobIdConflict, OperationKeyConflict
from celery_lease.job import Claimed, Kind, State
from celery_lease.stores.base import PUBLISH_HOLD, JobStore
from celery_lease.testing.contract.scene import (
    PAST_TTL,
    TASK,
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


class SubmissionContract:
    """Tests of `submit`."""

    def test_submit_creates_a_pending_job(self, store: JobStore) -> None:
        submitted = submit(store)
        assert (submitted.task_id, submitted.created, submitted.due_now) == ("a", True, True)
        assert submitted.job == get(store)
        assert submitted.job.state is State.PENDING
        assert (submitted.job.attempts, submitted.job.token, submitted.job.owner) == (0, 0, "")
        assert kinds(store) == [Kind.CREATED]

    def test_submit_keeps_what_it_was_given(self, store: JobStore) -> None:
        given = replace(
            new("ä~1", key="k"), queue="q", tenant="t", arguments="('ä',)", max_attempts=3
        )
        job = submit(store, given).job
        for name in ("id", "task", "message", "body", "fingerprint", "key", "hands_over", "audit"):
            assert getattr(job, name) == getattr(given, name), name
        for name in ("queue", "tenant", "arguments", "max_attempts"):
            assert getattr(job, name) == getattr(given, name), name

    def test_same_id_again_is_that_job(self, store: JobStore) -> None:
        submit(store)
        again = submit(store, replace(new(), message="another", fingerprint="other"))
        assert (again.created, again.due_now) == (False, False)
        assert again.job == get(store)
        assert again.job.message == new().message
        assert kinds(store) == [Kind.CREATED]

    def test_same_id_again_with_other_arguments_is_that_job(self, store: JobStore) -> None:
        """First wins: a redelivered task that submits anew must not fail in the tracer."""
        submit(store, new("a", key="k"))
        changed = replace(new("a", key="k"), fingerprint="other")
        assert not submit(store, changed).created
        twice = [new("b", key="l"), replace(new("b", key="l"), fingerprint="other")]
        assert [answer.created for answer in store.submit(twice)] == [True, False]

    def test_same_id_of_a_running_job_shows_its_lease(self, store: JobStore) -> None:
        hold_new(store)
        assert submit(store).job == get(store)

    def test_id_of_another_task_is_refused(self, store: JobStore) -> None:
        submit(store, new("a", key="k"))
        submit(store, new("b", key="k"))
        for task_id in ("a", "b"):
            with pytest.raises(JobIdConflict):
                submit(store, replace(new(task_id), task="another.task"))

    def test_known_key_joins_under_its_own_id(self, store: JobStore) -> None:
        submit(store, new("a", key="k"))
        joined = submit(store, new("b", key="k"))
        assert (joined.task_id, joined.created, joined.due_now) == ("b", False, False)
        assert joined.job.id == get(store, "b").id == "a"
        assert kinds(store) == [Kind.CREATED, Kind.DUPLICATE_SUBMITTED]
        assert events_of(store, Kind.DUPLICATE_SUBMITTED)[0].details == {"task_id": "b"}

    def test_joining_again_under_one_id_is_one_submission(self, store: JobStore) -> None:
        submit(store, new("a", key="k"))
        submit(store, new("b", key="k"))
        assert submit(store, new("b", key="k")).job.id == "a"
        assert kinds(store).count(Kind.DUPLICATE_SUBMITTED) == 1

    def test_a_key_belongs_to_its_task(self, store: JobStore) -> None:
        submit(store, new("a", key="k"))
        assert submit(store, replace(new("b", key="k"), task="another.task")).created

    def test_ids_and_keys_differ_by_case_and_space(self, store: JobStore) -> None:
        for task_id, key in (("a", "k"), ("A", "K"), ("a ", "k ")):
            assert submit(store, new(task_id, key=key)).created

    def test_key_conflict_leaves_the_first_untouched(self, store: JobStore) -> None:
        submit(store, new("a", key="k"))
        before, record = get(store), store.events("a")
        with pytest.raises(OperationKeyConflict):
            submit(store, replace(new("b", key="k"), fingerprint="other"))
        assert (get(store), store.events("a")) == (before, record)
        assert store.get("b") is None

    def test_a_batch_answers_in_order(self, store: JobStore) -> None:
        answers = store.submit([new("a", key="k"), new("b", key="k"), new("c")])
        assert [(x.task_id, x.job.id, x.created) for x in answers] == [
            ("a", "a", True),
            ("b", "a", False),
            ("c", "c", True),
        ]

    def test_a_batch_in_conflict_leaves_nothing(self, store: JobStore) -> None:
        submit(store, new("a", key="k"))
        with pytest.raises(OperationKeyConflict):
            store.submit([new("x"), replace(new("b", key="k"), fingerprint="other")])
        assert store.get("x") is None

    def test_a_batch_in_conflict_with_itself_leaves_nothing(self, store: JobStore) -> None:
        with pytest.raises(OperationKeyConflict):
            store.submit([new("x", key="k"), replace(new("y", key="k"), fingerprint="other")])
        with pytest.raises(JobIdConflict):
            store.submit([new("x"), replace(new("x"), task="another.task")])
        assert store.get("x") is None

    def test_a_batch_in_conflict_joins_nothing(self, store: JobStore) -> None:
        submit(store, new("a", key="k"))
        with pytest.raises(JobIdConflict):
            store.submit([new("b", key="k"), replace(new("a"), task="another.task")])
        assert store.get("b") is None
        assert kinds(store) == [Kind.CREATED]

    def test_delay_makes_a_job_due_later(self, store: JobStore, elapse: Elapse) -> None:
        submitted = submit(store, replace(new(), delay=100.0))
        assert not submitted.due_now
        assert near(submitted.job.available_at, submitted.job.created_at + 100.0)
        elapse(90.0)
        assert due_ids(store) == set()
        elapse(20.0)
        assert due_ids(store) == {"a"}
        assert isinstance(claim(store), Claimed)

    def test_expires_in_counts_from_the_store_s_now(self, store: JobStore) -> None:
        job = submit(store, replace(new(), expires_in=100.0)).job
        assert near(job.expires_at, job.created_at + 100.0)

    def test_joining_a_running_job_waits_for_its_end(self, store: JobStore, elapse: Elapse) -> None:
        grant = hold_new(store, new("a", key="k"))
        assert not submit(store, new("b", key="k")).due_now
        elapse(PUBLISH_HOLD + 1.0)
        assert due_ids(store) == set()
        store.succeed(grant, "1")
        store.settle(grant)
        assert due_ids(store) == {"b"}

    def test_joining_after_the_end_is_due_at_once(self, store: JobStore, elapse: Elapse) -> None:
        finish(store, new("a", key="k"))
        joined = submit(store, new("b", key="k"))
        assert (joined.due_now, joined.job.state) == (True, State.SUCCEEDED)
        assert due_ids(store) == set(), "the caller publishes; the sweeper does not race it"
        elapse(PUBLISH_HOLD + 1.0)
        assert due_ids(store) == {"b"}
        assert hold_outcome(store, "b").task_id == "b"

    def test_joining_without_followers_is_settled_at_once(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        finish(store, new("a", key="k"))
        assert not submit(store, replace(new("b", key="k"), hands_over=False)).due_now
        elapse(PAST_TTL)
        assert due_ids(store) == set()

    def test_on_dead_keep_joins_the_dead_job(self, store: JobStore) -> None:
        bury(store, new("a", key="k"))
        joined = submit(store, new("b", key="k"))
        assert (joined.job.state, joined.due_now) == (State.DEAD, True)

    def test_on_dead_replay_replays_a_dead_job(self, store: JobStore) -> None:
        bury(store, new("a", key="k"))
        joined = submit(store, replace(new("b", key="k"), on_dead="replay"))
        assert (joined.created, joined.job.state, joined.job.attempts) == (False, State.PENDING, 0)
        assert joined.job == get(store)
        assert kinds(store)[-1] is Kind.REPLAYED
        assert hold(store).attempt == 1

    def test_on_dead_replay_replays_a_cancelled_job(self, store: JobStore) -> None:
        submit(store, new("a", key="k"))
        store.cancel("a", by="ops")
        joined = submit(store, replace(new("b", key="k"), on_dead="replay"))
        assert joined.job.state is State.PENDING

    def test_on_dead_replay_leaves_a_success_alone(self, store: JobStore) -> None:
        finish(store, new("a", key="k"))
        joined = submit(store, replace(new("b", key="k"), on_dead="replay"))
        assert joined.job.state is State.SUCCEEDED
        assert Kind.REPLAYED not in kinds(store)

    def test_after_commit_runs_at_once_without_a_transaction(self, store: JobStore) -> None:
        published: list[str] = []
        submit(store)
        store.after_commit(lambda: published.append(TASK))
        assert published == [TASK]
