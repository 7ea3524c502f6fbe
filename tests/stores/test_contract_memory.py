"""The memory store keeps the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_lease.stores.memory import MemoryStore
from celery_lease.testing.clock import FakeClock
from celery_lease.testing.contract import StoreContract

if TYPE_CHECKING:
    from celery_lease.testing.contract.scene import Elapse


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def store(self, clock: FakeClock) -> MemoryStore:
        return MemoryStore(clock)

    @pytest.fixture
    def elapse(self, clock: FakeClock) -> Elapse:
        return clock.advance
