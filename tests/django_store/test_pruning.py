"""Pruning beside submissions that join what is being pruned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_lease.job import Unsettled
from celery_lease.testing.contract.scene import claim, finish, new, submit
from tests.django_store.holding import held, waiting

if TYPE_CHECKING:
    from celery_lease.stores.base import JobStore
    from celery_lease.testing.contract.scene import Elapse


@pytest.fixture
def store(postgres_store: JobStore) -> JobStore:
    return postgres_store


def test_prune_keeps_a_job_that_is_joined_meanwhile(store: JobStore, elapse: Elapse) -> None:
    finish(store, new("a", key="k"))
    elapse(31 * 86_400.0)
    with held('INSERT INTO "celery_lease_submission"', lambda: submit(store, new("b", "k"))) as one:
        assert store.prune(10) == 0
        assert one.finish().job.id == "a"
    assert store.prune(10) == 0
    assert isinstance(claim(store, "b"), Unsettled)


def test_who_joins_a_job_that_is_being_pruned_makes_a_new_one(
    store: JobStore, elapse: Elapse
) -> None:
    finish(store, new("a", key="k"))
    elapse(31 * 86_400.0)
    with (
        held('DELETE FROM "celery_lease_jobevent"', lambda: store.prune(10)) as pruning,
        waiting(lambda: submit(store, new("b", "k"))) as submitted,
    ):
        assert pruning.finish() == 1
        assert submitted.result(10).created


def test_prune_looks_again_once_its_jobs_are_locked(store: JobStore, elapse: Elapse) -> None:
    """The submission was joined long before the retention ended, and committed only now."""
    finish(store, new("a", key="k"))
    with held('INSERT INTO "celery_lease_submission"', lambda: submit(store, new("b", "k"))) as one:
        elapse(31 * 86_400.0)
        with held('SELECT "celery_lease_job"', lambda: store.prune(10)) as pruning:
            assert one.finish().job.id == "a"
            assert pruning.finish() == 0
    assert isinstance(claim(store, "b"), Unsettled)
