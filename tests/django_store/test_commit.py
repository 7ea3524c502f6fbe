"""`commit()`: the writes and the success together or not at all."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext

from celery_lease.errors import StaleToken
from celery_lease.job import Kind, State
from celery_lease.message import to_text
from celery_lease.testing.contract.scene import OTHER, PAST_TTL, hold, hold_new

if TYPE_CHECKING:
    from celery_lease.lease import Grant
    from celery_lease.stores.base import JobStore
    from celery_lease.testing.contract.scene import Elapse


class UserError(Exception):
    """Raised by the code inside the block."""


def overtaken(store: JobStore, elapse: Elapse) -> Grant:
    """A grant whose job somebody else holds by now."""
    stale = hold_new(store)
    elapse(PAST_TTL)
    hold(store, owner=OTHER)
    return stale


def state(store: JobStore) -> State:
    job = store.get("a")
    assert job is not None
    return job.state


def kinds(store: JobStore) -> list[Kind]:
    return [event.kind for event in store.events("a")]


def test_writes_and_success_are_one_transaction(store: JobStore) -> None:
    grant = hold_new(store)
    with store.commit(grant, to_text) as done:
        Group.objects.create(name="effect")
        done.result = {"status": 200}
        assert state(store) == State.RUNNING
    assert Group.objects.filter(name="effect").exists()
    job = store.get("a")
    assert job
    assert (job.state, job.result) == (State.SUCCEEDED, '{"status": 200}')
    assert kinds(store)[-1] == Kind.SUCCEEDED
    assert store.settle(grant)


def test_the_jobs_transition_is_the_last_statement(store: JobStore) -> None:
    grant = hold_new(store)
    with CaptureQueriesContext(connection) as captured, store.commit(grant, to_text):
        Group.objects.create(name="effect")
    statements = [q["sql"] for q in captured.captured_queries if q["sql"] != "COMMIT"]
    assert statements[-1].startswith('UPDATE "celery_lease_job"')
    assert str(grant.token) in statements[-1]
    assert grant.owner in statements[-1]


def test_an_exception_rolls_both_back(store: JobStore) -> None:
    grant = hold_new(store)
    with pytest.raises(UserError), store.commit(grant, to_text):
        Group.objects.create(name="effect")
        raise UserError
    assert not Group.objects.exists()
    assert state(store) == State.RUNNING


def test_a_stale_holder_is_refused_rolled_back_and_recorded(
    store: JobStore, elapse: Elapse
) -> None:
    stale = overtaken(store, elapse)
    with pytest.raises(StaleToken), store.commit(stale, to_text):
        Group.objects.create(name="effect")
    assert not Group.objects.exists()
    refusal = store.events("a")[-1]
    assert (refusal.kind, refusal.token) == (Kind.STALE_WRITE_REFUSED, stale.token)
    assert state(store) == State.RUNNING


def test_a_holder_whose_job_was_only_expired_is_refused(store: JobStore, elapse: Elapse) -> None:
    stale = hold_new(store)
    elapse(PAST_TTL)
    store.expire(10)
    with pytest.raises(StaleToken), store.commit(stale, to_text):
        Group.objects.create(name="effect")
    assert not Group.objects.exists()


def test_a_stale_holder_that_swallowed_an_error_is_refused(store: JobStore, elapse: Elapse) -> None:
    stale = overtaken(store, elapse)
    with pytest.raises(StaleToken), store.commit(stale, to_text):
        Group.objects.create(name="effect")
        with contextlib.suppress(IntegrityError), transaction.atomic():
            Group.objects.create(name="effect")
    assert not Group.objects.exists()


def test_a_swallowed_error_in_a_savepoint_harms_nobody(store: JobStore) -> None:
    with store.commit(hold_new(store), to_text):
        Group.objects.create(name="effect")
        with contextlib.suppress(IntegrityError), transaction.atomic():
            Group.objects.create(name="effect")
    assert Group.objects.count() == 1
    assert state(store) == State.SUCCEEDED


def test_a_broken_transaction_is_no_success(store: JobStore) -> None:
    """Django would roll it back at the end without a word."""
    grant = hold_new(store)
    with pytest.raises(TransactionManagementError), store.commit(grant, to_text):
        Group.objects.create(name="effect")
        with contextlib.suppress(UserError), transaction.atomic(savepoint=False):
            raise UserError
    assert not Group.objects.exists()
    assert state(store) == State.RUNNING


def test_a_second_commit_is_refused(store: JobStore) -> None:
    grant = hold_new(store)
    with store.commit(grant, to_text):
        Group.objects.create(name="first")
    with pytest.raises(StaleToken), store.commit(grant, to_text):
        Group.objects.create(name="second")
    assert [group.name for group in Group.objects.all()] == ["first"]


def test_a_result_that_json_cannot_hold_rolls_back(store: JobStore) -> None:
    with (
        pytest.raises(Exception, match="not JSON serializable"),
        store.commit(hold_new(store), to_text) as done,
    ):
        Group.objects.create(name="effect")
        done.result = object()
    assert not Group.objects.exists()


def test_a_commit_inside_another_transaction_is_refused(store: JobStore) -> None:
    grant = hold_new(store)
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        store.commit(grant, to_text).__enter__()
    assert state(store) == State.RUNNING
