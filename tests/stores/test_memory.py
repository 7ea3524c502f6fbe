"""What the memory store does beyond the contract."""

from __future__ import annotations

from celery_lease.job import Busy
from celery_lease.stores import open_store
from celery_lease.stores.memory import MemoryStore
from celery_lease.testing.clock import FakeClock
from celery_lease.testing.contract.scene import TTL, claim, hold, hold_new


def test_tokens_grow_though_the_clock_went_back() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    first = hold_new(store)
    clock.set_back(3600.0)
    store.expire_owner(first.owner, "exit code 9")
    assert hold(store).token == first.token + 1


def test_a_lease_lasts_longer_when_the_clock_went_back() -> None:
    """Never shorter: its holder still trusts it, on a clock of its own."""
    clock = FakeClock()
    store = MemoryStore(clock)
    hold_new(store)
    clock.set_back(3600.0)
    clock.advance(TTL + 1.0)
    assert isinstance(claim(store), Busy)


def test_a_url_names_one_store() -> None:
    assert open_store("memory://one") is open_store("memory://one")
    assert open_store("memory://one") is not open_store("memory://other")


def test_it_belongs_to_one_process() -> None:
    assert not MemoryStore.shared
