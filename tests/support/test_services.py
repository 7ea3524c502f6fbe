from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tests.support import services
from tests.support.valkey import own_redis_database
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.support.databases import TestDatabase
    from tests.support.valkey import PrivateValkey


def test_redis_databases_in_use_at_the_same_time_differ(redis_server: str) -> None:
    with own_redis_database(redis_server) as one, own_redis_database(redis_server) as two:
        assert one != two


def test_redis_data_of_others_is_left_alone(private_valkey: PrivateValkey) -> None:
    for number in range(1, 16):
        Redis.from_url(f"{private_valkey.url.removesuffix('/0')}/{number}").set("theirs", 1)
    with (
        pytest.raises(RuntimeError, match="no empty database"),
        own_redis_database(private_valkey.url),
    ):
        pytest.fail("took a database that holds data")


def test_private_valkey_freezes_and_comes_back_empty_after_a_kill(
    private_valkey: PrivateValkey,
) -> None:
    client = private_valkey.client(socket_timeout=0.2, retry=None)
    client.set("key", 1)
    private_valkey.freeze()
    with pytest.raises(RedisTimeoutError):
        client.get("key")
    private_valkey.thaw()
    assert client.get("key") == b"1"
    private_valkey.kill()
    with pytest.raises(RedisConnectionError):
        client.get("key")
    private_valkey.start()
    assert client.get("key") is None


@pytest.mark.parametrize("run", [1, 2])
def test_each_test_has_a_database_that_other_threads_see(database: TestDatabase, run: int) -> None:
    assert connection.vendor == database.vendor
    assert not Group.objects.exists()
    Group.objects.create(name=str(run))
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(_exists_here()))
    thread.start()
    thread.join()
    assert seen == [True]


def _exists_here() -> bool:
    try:
        return Group.objects.exists()
    finally:
        connection.close()


@pytest.mark.usefixtures("sqlite_database")
def test_sqlite_transactions_write_from_their_start() -> None:
    connection.ensure_connection()
    assert connection.transaction_mode == "IMMEDIATE"
    with connection.cursor() as cursor:
        assert cursor.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_missing_service_skips_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("TEST_RABBITMQ_URL", raising=False)
    with pytest.raises(pytest.skip.Exception, match="TEST_RABBITMQ_URL names no server"):
        services.named_server("TEST_RABBITMQ_URL")


def test_a_missing_service_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv("TEST_RABBITMQ_URL", raising=False)
    with pytest.raises(pytest.fail.Exception, match="TEST_RABBITMQ_URL names no server"):
        services.named_server("TEST_RABBITMQ_URL")


def test_waiting_returns_the_value_and_fails_with_the_last_one() -> None:
    values = iter([0, 0, 7])
    assert wait_for(lambda: next(values), 1) == 7
    with pytest.raises(AssertionError, match=r"no seven within 0\.05 s, last value 0"):
        wait_for(lambda: 0, 0.05, what="seven")
