"""When messages are published, and when they are presumed lost."""

from __future__ import annotations

from dataclasses import replace

from celery_lease.job import Due
from celery_lease.stores.base import PUBLISH_HOLD, JobStore
from celery_lease.testing.contract.scene import (
    FAILURE,
    PAST_TTL,
    TTL,
    Elapse,
    due_ids,
    finish,
    get,
    hold,
    hold_new,
    near,
    new,
    submit,
)

PAST_HOLD = PUBLISH_HOLD + 1.0


class PublishingContract:
    """Tests of `due`, `next_due_in`, `published`, `publish_again` and `broker_lost_data`."""

    def test_a_new_job_is_left_to_its_caller_at_first(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        submit(store)
        assert due_ids(store) == set()
        elapse(PAST_HOLD)
        assert due_ids(store) == {"a"}

    def test_due_hands_out_the_message(self, store: JobStore) -> None:
        store.fail(hold_new(store), FAILURE, retry_in=0.0)
        assert store.due(10) == [Due("a", new().message, new().body, attempts=1)]

    def test_due_holds_what_it_handed_out(self, store: JobStore, elapse: Elapse) -> None:
        """Who was handed it may die before publishing; then another is."""
        submit(store)
        elapse(PAST_HOLD)
        assert due_ids(store) == {"a"}
        assert due_ids(store) == set()
        elapse(PAST_HOLD)
        assert due_ids(store) == {"a"}

    def test_due_takes_the_longest_waiting_first(self, store: JobStore, elapse: Elapse) -> None:
        for task_id, delay in (("late", 30.0), ("early", 10.0), ("middle", 20.0)):
            submit(store, replace(new(task_id), delay=delay))
        elapse(40.0)
        handed_out = [[due.task_id for due in store.due(1)] for _ in range(4)]
        assert handed_out == [["early"], ["middle"], ["late"], []]

    def test_published_backs_off(self, store: JobStore, elapse: Elapse) -> None:
        submit(store)
        for count, wait in enumerate((100.0, 200.0, 400.0), start=1):
            store.published(["a"], republish_after=100.0)
            assert get(store).publish_count == count
            elapse(wait - 2 * PUBLISH_HOLD)
            assert due_ids(store) == set()
            elapse(3 * PUBLISH_HOLD)
            assert due_ids(store) == {"a"}

    def test_published_of_a_running_job_publishes_nothing(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        """A worker can be quicker than the note that its message left."""
        hold_new(store)
        store.published(["a"], republish_after=1.0)
        elapse(TTL / 2)
        assert due_ids(store) == set()

    def test_a_late_published_does_not_postpone_a_retry(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        """A worker can run, fail and plan the next attempt before its publisher has noted."""
        store.fail(hold_new(store), FAILURE, retry_in=5.0)
        store.published(["a"], republish_after=900.0)
        elapse(6.0)
        assert due_ids(store) == {"a"}

    def test_published_of_a_settled_job_publishes_nothing(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        finish(store)
        store.published(["a", "unknown"], republish_after=1.0)
        elapse(PAST_HOLD)
        assert due_ids(store) == set()
        assert store.next_due_in() is None

    def test_publish_again_plans_the_next_message(self, store: JobStore, elapse: Elapse) -> None:
        submit(store)
        store.published(["a"], republish_after=900.0)
        store.publish_again(["a", "unknown"], delay=30.0)
        elapse(20.0)
        assert due_ids(store) == set()
        elapse(20.0)
        assert due_ids(store) == {"a"}

    def test_a_settled_outcome_is_never_due(self, store: JobStore, elapse: Elapse) -> None:
        finish(store)
        store.publish_again(["a"], delay=1.0)
        elapse(PAST_HOLD)
        assert due_ids(store) == set()

    def test_publish_again_reaches_a_duplicate(self, store: JobStore, elapse: Elapse) -> None:
        finish(store, new("a", key="k"))
        submit(store, new("b", key="k"))
        store.published(["b"], republish_after=900.0)
        store.publish_again(["b"], delay=30.0)
        elapse(40.0)
        assert due_ids(store) == {"b"}

    def test_duplicates_are_not_published_before_the_end(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        submit(store, new("a", key="k"))
        submit(store, new("b", key="k"))
        elapse(PAST_HOLD)
        assert due_ids(store) == {"a"}

    def test_an_outcome_is_published_only_without_a_live_lease(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        store.succeed(hold_new(store), "1")
        elapse(TTL / 2)
        assert due_ids(store) == set()
        elapse(TTL)
        assert due_ids(store) == {"a"}

    def test_a_lost_broker_makes_its_messages_due(self, store: JobStore) -> None:
        for task_id in ("a", "b", "c", "new"):
            submit(store, new(task_id))
        store.published(["a", "b", "c"], republish_after=900.0, epoch="one")
        store.published(["new"], republish_after=900.0, epoch="two")
        assert [store.broker_lost_data("two", limit=2) for _ in range(3)] == [2, 1, 0]
        assert due_ids(store) == {"a", "b", "c"}

    def test_a_lost_broker_moves_no_message_without_an_epoch(self, store: JobStore) -> None:
        submit(store)
        store.published(["a"], republish_after=900.0)
        submit(store, new("unpublished"))
        assert store.broker_lost_data("one", limit=10) == 0
        assert due_ids(store) == set()

    def test_a_lost_broker_moves_nothing_that_needs_no_message(self, store: JobStore) -> None:
        submit(store)
        submit(store, new("b"))
        store.published(["a", "b"], republish_after=900.0, epoch="one")
        hold(store)
        grant = hold(store, "b")
        store.succeed(grant, "1")
        store.settle(grant)
        assert store.broker_lost_data("two", limit=10) == 0

    def test_a_lost_broker_is_told_once_per_message(self, store: JobStore) -> None:
        submit(store)
        store.published(["a"], republish_after=900.0, epoch="one")
        store.broker_lost_data("two", limit=10)
        store.published(["a"], republish_after=900.0, epoch="two")
        assert store.broker_lost_data("two", limit=10) == 0
        assert store.broker_lost_data("three", limit=10) == 1

    def test_nothing_planned_is_never_due(self, store: JobStore) -> None:
        assert store.next_due_in() is None
        finish(store)
        assert store.next_due_in() is None

    def test_next_due_in_knows_the_plan(self, store: JobStore, elapse: Elapse) -> None:
        submit(store, replace(new(), delay=100.0))
        assert near(store.next_due_in(), 100.0)
        submit(store, replace(new("b"), delay=50.0))
        assert near(store.next_due_in(), 50.0)
        elapse(60.0)
        assert store.next_due_in() == 0.0
        due_ids(store)
        assert near(store.next_due_in(), PUBLISH_HOLD)

    def test_next_due_in_knows_the_leases(self, store: JobStore, elapse: Elapse) -> None:
        grant = hold_new(store)
        assert near(store.next_due_in(), TTL)
        store.succeed(grant, "1")
        assert near(store.next_due_in(), TTL)
        elapse(PAST_TTL)
        assert store.next_due_in() == 0.0

    def test_next_due_in_leaves_waiting_duplicates_out(self, store: JobStore) -> None:
        hold_new(store, new("a", key="k"))
        submit(store, new("b", key="k"))
        assert near(store.next_due_in(), TTL)
