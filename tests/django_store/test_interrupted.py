"""An interrupt can hit anywhere, also inside a call to the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, connections, transaction

from celery_lease.errors import LeaseLost
from celery_lease.job import Claimed, State
from celery_lease.testing.contract.scene import claim, get, submit

if TYPE_CHECKING:
    from celery_lease.stores.base import JobStore


def interrupt(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
    answer = execute(sql, params, many, context)
    if sql.startswith("UPDATE"):
        raise LeaseLost
    return answer


def test_what_it_hit_leaves_nothing(store: JobStore) -> None:
    submit(store)
    with connection.execute_wrapper(interrupt), pytest.raises(LeaseLost):
        claim(store)
    store.interrupted()
    assert get(store).state == State.PENDING
    assert isinstance(claim(store), Claimed)


def test_a_transaction_whose_end_it_cut_off_is_given_up(store: JobStore) -> None:
    submit(store)
    transaction.atomic().__enter__()
    claim(store)
    store.interrupted()
    assert not connections["default"].in_atomic_block
    assert get(store).state == State.PENDING
    assert isinstance(claim(store), Claimed)
