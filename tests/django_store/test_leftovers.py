"""Rows that others deleted by hand, and more of them than one statement takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_lease.django.models import Job, JobLease
from celery_lease.job import Kind
from celery_lease.testing.contract.scene import PAST_TTL, TTL, hold, hold_new, kinds, new

if TYPE_CHECKING:
    from celery_lease.stores.base import JobStore
    from celery_lease.testing.contract.scene import Elapse


def test_the_lease_of_a_job_that_is_gone_ends(store: JobStore, elapse: Elapse) -> None:
    hold_new(store, new("gone"))
    hold_new(store, new("there"))
    Job.objects.filter(pk="gone").delete()
    elapse(PAST_TTL)
    assert [expired.job_id for expired in store.expire(10)] == ["there"]
    assert not JobLease.objects.exists()


def test_a_process_may_hold_very_many_leases(store: JobStore) -> None:
    names = [f"job {n}" for n in range(1200)]
    store.submit([new(name, key=name) for name in names])
    grants = [hold(store, name) for name in names]
    JobLease.objects.filter(job="job 700").delete()
    assert store.renew(grants).lost == {grants[700]}
    assert JobLease.objects.filter(renewals=1).count() == 1199
    assert grants[0].ttl == TTL
    assert kinds(store, "job 0")[-1] is Kind.CLAIMED
