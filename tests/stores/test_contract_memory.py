"""The memory store keeps the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_lease.clock import SystemClock
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


class RunningClock(SystemClock):
    """Time that also moves by itself, as a server's does."""

    ahead = 0.0

    def wall(self) -> float:
        return super().wall() + self.ahead

    def advance(self, seconds: float) -> None:
        self.ahead += seconds


class TestMemoryStoreInRunningTime(StoreContract):
    """Shows that the contract itself asks for no clock that stands still."""

    @pytest.fixture
    def clock(self) -> RunningClock:
        return RunningClock()

    @pytest.fixture
    def store(self, clock: RunningClock) -> MemoryStore:
        return MemoryStore(clock)

    @pytest.fixture
    def elapse(self, clock: RunningClock) -> Elapse:
        return clock.advance
