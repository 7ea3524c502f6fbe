"""The job store of the example, for those who only read it."""

from functools import cache

from celery_lease.stores import open_store
from celery_lease.stores.base import JobStore
from django_example.celery import app


@cache
def job_store() -> JobStore:
    """Return the store that the tasks use."""
    return open_store(app.conf.lease_store)
