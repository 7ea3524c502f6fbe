"""The Django store keeps the contract on each engine."""

from __future__ import annotations

from celery_lease.testing.contract import StoreContract


class TestDjangoStore(StoreContract):
    """Fixtures `store` and `elapse` are those of this folder."""
