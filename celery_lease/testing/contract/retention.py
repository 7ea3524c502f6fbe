"""How long ended jobs are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from celery_lease.job import Gone, NewJob
from celery_lease.testing.contract.scene import (
    Elapse,
    bury,
    claim,
    due_ids,
    finish,
    hold_new,
    new,
    submit,
)

if TYPE_CHECKING:
    from celery_lease.stores.base import JobStore


def _kept_shortly(task_id: str = "a", key: str | None = None) -> NewJob:
    return replace(new(task_id, key), retention=100.0, key_retention=1000.0)


class RetentionContract:
    """Tests of `prune`."""

    def test_prune_waits_for_the_retention(self, store: JobStore, elapse: Elapse) -> None:
        finish(store, _kept_shortly())
        elapse(90.0)
        assert store.prune(10) == 0
        elapse(20.0)
        assert store.prune(10) == 1
        assert store.get("a") is None
        assert claim(store) == Gone()
        assert store.prune(10) == 0

    def test_retention_counts_from_the_end(self, store: JobStore, elapse: Elapse) -> None:
        submit(store, _kept_shortly())
        elapse(200.0)
        finish(store, _kept_shortly())
        assert store.prune(10) == 0

    def test_retention_counts_from_the_planned_start(self, store: JobStore, elapse: Elapse) -> None:
        """The message promised that much, and a late copy of it may still come."""
        submit(store, replace(_kept_shortly(), delay=1000.0, hands_over=False))
        store.cancel("a", by="ops")
        elapse(1000.0)
        assert store.prune(10) == 0
        elapse(200.0)
        assert store.prune(10) == 1

    def test_prune_takes_no_more_than_its_limit(self, store: JobStore, elapse: Elapse) -> None:
        for task_id in ("a", "b", "c"):
            finish(store, _kept_shortly(task_id))
        elapse(200.0)
        assert [store.prune(2), store.prune(2), store.prune(2)] == [2, 1, 0]

    def test_prune_spares_what_has_not_ended(self, store: JobStore, elapse: Elapse) -> None:
        submit(store, _kept_shortly("pending"))
        hold_new(store, _kept_shortly("running"))
        elapse(10_000.0)
        assert store.prune(10) == 0

    def test_prune_spares_what_is_not_settled(self, store: JobStore, elapse: Elapse) -> None:
        grant = bury(store, _kept_shortly())
        elapse(10_000.0)
        assert store.prune(10) == 0
        store.settle(grant)
        assert store.prune(10) == 1

    def test_prune_spares_a_job_with_an_unsettled_duplicate(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        finish(store, _kept_shortly("a", key="k"))
        submit(store, _kept_shortly("b", key="k"))
        elapse(10_000.0)
        assert store.prune(10) == 0
        assert due_ids(store) == {"b"}

    def test_a_key_is_kept_longer_and_then_free(self, store: JobStore, elapse: Elapse) -> None:
        finish(store, _kept_shortly("a", key="k"))
        elapse(200.0)
        assert store.prune(10) == 0
        assert submit(store, replace(new("b", key="k"), hands_over=False)).job.id == "a"
        elapse(900.0)
        assert store.prune(10) == 1
        assert [store.get("a"), store.get("b")] == [None, None]
        again = submit(store, replace(new("c", key="k"), fingerprint="other"))
        assert (again.created, again.job.id) == (True, "c")

    def test_a_pruned_id_is_free(self, store: JobStore, elapse: Elapse) -> None:
        finish(store, _kept_shortly())
        elapse(200.0)
        store.prune(10)
        assert submit(store).created
