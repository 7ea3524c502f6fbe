"""Claims, hand-overs and sweepers on two connections at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_lease.job import Busy, Claimed, Finished, Kind, Unsettled
from celery_lease.testing.contract.scene import (
    OTHER,
    OWNER,
    PAST_TTL,
    claim,
    due_ids,
    finish,
    get,
    hold,
    hold_new,
    hold_outcome,
    kinds,
    new,
    submit,
)
from tests.django_store.holding import held, waiting

if TYPE_CHECKING:
    from celery_lease.stores.base import JobStore
    from celery_lease.testing.contract.scene import Elapse

RENEWAL = 'UPDATE "celery_lease_joblease"'
JOB_READ = 'SELECT "celery_lease_job"'
JOB_UPDATE = 'UPDATE "celery_lease_job"'
LEASE_DELETE = 'DELETE FROM "celery_lease_joblease"'


@pytest.fixture
def store(postgres_store: JobStore) -> JobStore:
    return postgres_store


def test_of_two_claims_one_is_granted(store: JobStore) -> None:
    submit(store)
    with (
        held(JOB_UPDATE, lambda: claim(store, owner=OWNER)) as first,
        waiting(lambda: claim(store, owner=OTHER)) as second,
    ):
        assert isinstance(first.finish(), Claimed)
        assert isinstance(second.result(10), Busy)


def test_of_two_take_overs_one_is_granted(store: JobStore, elapse: Elapse) -> None:
    hold_new(store)
    elapse(PAST_TTL)
    with held(LEASE_DELETE, lambda: claim(store, owner=OWNER)) as first:
        assert isinstance(claim(store, owner=OTHER), Busy)
        assert isinstance(first.finish(), Claimed)


def test_a_take_over_does_not_believe_what_it_read_before_a_renewal(
    store: JobStore, elapse: Elapse
) -> None:
    grant = hold_new(store)
    elapse(PAST_TTL)
    with held(JOB_READ, lambda: claim(store, owner=OTHER)) as late:
        elapse(-PAST_TTL)
        assert store.renew([grant]).lost == frozenset()
        assert isinstance(late.finish(), Busy)
    assert get(store).token == grant.token


def test_a_claim_counts_from_what_a_replay_left_after_its_look(
    store: JobStore, elapse: Elapse
) -> None:
    """State, token and owner are as it saw them: only the number of attempts tells."""
    hold_new(store)
    elapse(PAST_TTL)
    store.expire(10)
    with held(JOB_READ, lambda: claim(store)) as late:
        store.cancel("a", by="test")
        store.replay("a", by="test")
        assert late.finish().grant.attempt == 1


def test_an_outcome_settled_after_a_claims_look_is_not_handed_out_again(
    store: JobStore, elapse: Elapse
) -> None:
    """State, token and owner are as it saw them: only the settling tells."""
    grant = hold_new(store)
    store.succeed(grant, "1")
    elapse(PAST_TTL)
    store.expire(10)
    with held(JOB_READ, lambda: claim(store, owner=OTHER)) as late:
        assert store.settle(grant)
        assert isinstance(late.finish(), Finished)


def test_a_claim_waits_for_who_only_looks_at_a_pending_job(store: JobStore, elapse: Elapse) -> None:
    """Busy would be acknowledged, and the hint lost."""
    submit(store)
    elapse(20.0)
    with (
        held(JOB_UPDATE, lambda: store.due(10)) as publishing,
        waiting(lambda: claim(store)) as claimed,
    ):
        publishing.finish()
        assert isinstance(claimed.result(10), Claimed)


def test_a_duplicate_claimed_while_its_sibling_settles_is_granted(store: JobStore) -> None:
    grant = hold_new(store, new("a", key="k"))
    submit(store, new("b", key="k"))
    store.succeed(grant, "1")
    with (
        held(LEASE_DELETE, lambda: store.settle(grant)) as settling,
        waiting(lambda: claim(store, "b", owner=OTHER)) as claimed,
    ):
        assert settling.finish()
        assert isinstance(claimed.result(10), Unsettled)


def test_a_settle_waits_for_a_claim_of_its_sibling_with_nothing_in_hand(store: JobStore) -> None:
    """The claim has locked the lease row and goes on to the job's."""
    submit(store, new("a", key="k"))
    submit(store, new("b", key="k"))
    grant = hold(store, "b")
    store.succeed(grant, "1")
    with (
        held('SELECT "celery_lease_joblease"', lambda: claim(store, owner=OTHER)) as claiming,
        waiting(lambda: store.settle(grant)) as settled,
    ):
        assert isinstance(claiming.finish(), Busy)
        assert settled.result(10)
    assert due_ids(store) == {"a"}


def test_expire_does_not_wait_for_a_lease_row_with_others_in_hand(
    store: JobStore, elapse: Elapse
) -> None:
    for name in "ab":
        hold_new(store, new(name))
    elapse(PAST_TTL)
    with held(LEASE_DELETE, lambda: claim(store, "a", owner=OTHER)) as claiming:
        assert [expired.job_id for expired in store.expire(10)] == ["b"]
        claiming.finish()


def test_a_second_settle_leaves_the_lease_of_who_claimed_after_its_look(store: JobStore) -> None:
    grant = finish(store, new("a", key="k"))
    submit(store, new("b", key="k"))
    with held(JOB_READ, lambda: store.settle(grant)) as late:
        outcome = hold_outcome(store, "b")
        late.finish()
    assert store.renew([outcome]).lost == frozenset()


def test_a_late_settle_and_a_claim_of_its_submission_do_not_wait_for_each_other(
    store: JobStore, elapse: Elapse
) -> None:
    """Both write the job before the submission; the lease row is gone by then."""
    submit(store, new("a", key="k"))
    submit(store, new("b", key="k"))
    grant = hold(store, "b")
    store.succeed(grant, "1")
    elapse(PAST_TTL)
    store.expire(10)
    with (
        held(JOB_UPDATE, lambda: claim(store, "b", owner=OTHER)) as claiming,
        waiting(lambda: store.settle(grant)) as settled,
    ):
        assert isinstance(claiming.finish(), Unsettled)
        assert settled.result(10) is False
    assert kinds(store)[-1] is Kind.STALE_WRITE_REFUSED


def test_due_skips_what_another_sweeper_hands_out(store: JobStore, elapse: Elapse) -> None:
    store.submit([new(name) for name in "abcd"])
    elapse(20.0)
    with held(JOB_UPDATE, lambda: due_ids(store, limit=2)) as first:
        second = due_ids(store)
        assert len(second) == 2
        assert first.finish() | second == set("abcd")


def test_a_note_of_publishing_does_not_wait_for_a_row_with_others_in_hand(
    store: JobStore, elapse: Elapse
) -> None:
    store.submit([new(name) for name in "ab"])
    elapse(20.0)
    assert due_ids(store) == {"a", "b"}
    with held(JOB_UPDATE, lambda: claim(store, "a")) as claiming:
        store.published(["a", "b"], republish_after=900.0)
        claiming.finish()
    assert get(store, "a").next_publish_at is None
    assert get(store, "b").publish_count == 1
