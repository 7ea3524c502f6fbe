"""Holders, and who takes their jobs, on two connections at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Group
from django.db import connections

from celery_lease.errors import StaleToken, StoreUnavailable
from celery_lease.job import Busy, Kind, State, Unsettled
from celery_lease.message import to_text
from celery_lease.testing.contract.scene import (
    FAILURE,
    OTHER,
    PAST_TTL,
    claim,
    due_ids,
    get,
    hold,
    hold_new,
    kinds,
    new,
    submit,
)
from tests.django_store.holding import elsewhere, held, kill_others, waiting

if TYPE_CHECKING:
    from celery_lease.lease import Grant
    from celery_lease.stores.base import JobStore
    from celery_lease.testing.contract.scene import Elapse

RENEWAL = 'UPDATE "celery_lease_joblease"'
JOB_READ = 'SELECT "celery_lease_job"'
JOB_UPDATE = 'UPDATE "celery_lease_job"'
LEASE_DELETE = 'DELETE FROM "celery_lease_joblease"'


@pytest.fixture
def store(postgres_store: JobStore) -> JobStore:
    return postgres_store


def commit(store: JobStore, grant: Grant) -> None:
    with store.commit(grant, to_text):
        Group.objects.create(name="effect")


# -- against a commit ------------------------------------------------------


def test_a_renewal_does_not_wait_for_a_commit(store: JobStore) -> None:
    grant = hold_new(store)
    with held(JOB_UPDATE, lambda: commit(store, grant)) as committing:
        assert store.renew([grant]).lost == frozenset()
        assert not committing.future.done()
        committing.finish()
    assert get(store).state == State.SUCCEEDED


def test_a_renewal_spoils_no_commit_of_a_frozen_snapshot(store: JobStore) -> None:
    """A commit in a stricter isolation fails if a row that it writes was changed meanwhile."""
    grant = hold_new(store)
    connections["default"].close()
    connections.settings["default"]["OPTIONS"]["isolation_level"] = 3  # repeatable read
    with store.commit(grant, to_text):
        Group.objects.count()  # takes the snapshot
        assert elsewhere(lambda: store.renew([grant])).lost == frozenset()
        elsewhere(lambda: store.published(["a"], republish_after=900.0))
    assert get(store).state == State.SUCCEEDED


def test_a_take_over_finds_a_committing_job_busy(store: JobStore, elapse: Elapse) -> None:
    grant = hold_new(store)
    elapse(PAST_TTL)
    with held(JOB_UPDATE, lambda: commit(store, grant)) as committing:
        assert isinstance(claim(store, owner=OTHER), Busy)
        committing.finish()
    assert get(store).state == State.SUCCEEDED
    assert Group.objects.count() == 1


def test_expire_skips_a_committing_job(store: JobStore, elapse: Elapse) -> None:
    grant = hold_new(store)
    elapse(PAST_TTL)
    with held(JOB_UPDATE, lambda: commit(store, grant)) as committing:
        assert store.expire(10) == []
        committing.finish()
    assert store.expire(10) == []
    assert Kind.LEASE_EXPIRED not in kinds(store)


def test_expire_takes_in_its_next_call_what_a_failed_commit_held(
    store: JobStore, elapse: Elapse
) -> None:
    grant = hold_new(store)
    elapse(PAST_TTL)
    with held(JOB_UPDATE, lambda: commit(store, grant)) as committing:
        assert store.expire(10) == []
        kill_others()
        with pytest.raises(StoreUnavailable):
            committing.finish()
    assert [expired.job_id for expired in store.expire(10)] == ["a"]
    assert not Group.objects.exists()


def test_the_death_of_a_holder_waits_for_its_commit(store: JobStore) -> None:
    """What `expire_owner` skips is left to `expire`."""
    grant = hold_new(store)
    with held(JOB_UPDATE, lambda: commit(store, grant)) as committing:
        assert store.expire_owner(grant.owner, "killed") == []
        committing.finish()
    assert get(store).state == State.SUCCEEDED


def test_a_commit_that_waits_for_an_expiry_is_refused(store: JobStore, elapse: Elapse) -> None:
    grant = hold_new(store)
    elapse(PAST_TTL)
    with (
        held(JOB_UPDATE, lambda: store.expire(10)) as expiring,
        waiting(lambda: commit(store, grant)) as refused,
    ):
        assert [job.job_id for job in expiring.finish()] == ["a"]
        with pytest.raises(StaleToken):
            refused.result(10)
    assert not Group.objects.exists()
    assert kinds(store)[-1] is Kind.STALE_WRITE_REFUSED


def test_a_cancel_waits_for_a_commit_and_finds_it_done(store: JobStore) -> None:
    grant = hold_new(store)
    with (
        held(JOB_UPDATE, lambda: commit(store, grant)) as committing,
        waiting(lambda: store.cancel("a", by="test")) as cancelled,
    ):
        assert store.renew([grant]).lost == frozenset()  # while both are at it
        committing.finish()
        assert cancelled.result(10) is False
    assert get(store).state == State.SUCCEEDED


def test_who_joins_while_the_job_ends_is_handed_the_outcome(
    store: JobStore, elapse: Elapse
) -> None:
    grant = hold_new(store, new("a", key="k"))
    with held(JOB_UPDATE, lambda: commit(store, grant)) as committing:
        assert not submit(store, new("b", key="k")).due_now
        committing.finish()
    assert store.settle(grant)
    assert "b" in due_ids(store)
    elapse(PAST_TTL)
    assert isinstance(claim(store, "b"), Unsettled)


# -- of a holder and who takes its job --------------------------------------


def test_a_renewal_of_an_expiring_lease_is_lost_at_once(store: JobStore, elapse: Elapse) -> None:
    grant = hold_new(store)
    elapse(PAST_TTL)
    with held(LEASE_DELETE, lambda: store.expire(10)) as expiring:
        assert store.renew([grant]).lost == {grant}
        assert len(expiring.finish()) == 1


def test_a_renewal_that_waits_for_a_dead_holders_expiry_is_lost(store: JobStore) -> None:
    grant = hold_new(store)
    with (
        held(LEASE_DELETE, lambda: store.expire_owner(grant.owner, "killed")) as expiring,
        waiting(lambda: store.renew([grant])) as renewal,
    ):
        assert len(expiring.finish()) == 1
        assert renewal.result(10).lost == {grant}


def test_expire_skips_a_lease_that_is_being_renewed(store: JobStore, elapse: Elapse) -> None:
    grant = hold_new(store)
    with held(RENEWAL, lambda: store.renew([grant])) as renewing:
        assert store.expire_owner(grant.owner, "killed") == []
        assert renewing.finish().lost == frozenset()
    elapse(PAST_TTL - 2.0)
    assert store.expire(10) == []


def test_a_success_that_waits_for_a_cancel_is_refused(store: JobStore) -> None:
    grant = hold_new(store)
    with (
        held(JOB_UPDATE, lambda: store.cancel("a", by="test")) as cancelling,
        waiting(lambda: store.succeed(grant, None)) as refused,
    ):
        assert cancelling.finish()
        with pytest.raises(StaleToken):
            refused.result(10)
    assert get(store).state == State.CANCELLED


def test_a_success_whose_job_is_given_anew_after_its_look_is_refused(store: JobStore) -> None:
    """State, owner and number of the attempt are as it saw them: only the token tells."""
    grant = hold_new(store)
    with held(JOB_READ, lambda: store.succeed(grant, "late")) as late:
        store.release(grant)
        again = hold(store)
        assert (again.owner, again.attempt) == (grant.owner, grant.attempt)
        with pytest.raises(StaleToken):
            late.finish()
    assert get(store).state == State.RUNNING


def test_a_success_whose_job_ends_after_its_look_is_refused(store: JobStore) -> None:
    """Token, owner and number of the attempt are as it saw them: only the state tells."""
    grant = hold_new(store)
    with held(JOB_READ, lambda: store.succeed(grant, "late")) as late:
        store.fail(grant, FAILURE, retry_in=None)
        with pytest.raises(StaleToken):
            late.finish()
    assert get(store).state == State.DEAD
