"""Fixtures: servers by session, and on them a database, queue or server for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support import services
from tests.support.databases import PostgresDatabases, SqliteFiles, TestDatabase
from tests.support.rabbitmq import RabbitMQ, own_rabbitmq_queues
from tests.support.valkey import PrivateValkey, own_redis_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.plugin import DjangoDbBlocker

# A shared machine pauses now and then; a slow example is no finding.
settings.register_profile("celery-lease", deadline=None)
settings.load_profile("celery-lease")


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    with services.redis_server() as url:
        yield url


@pytest.fixture
def redis_url(redis_server: str) -> Iterator[str]:
    """An empty Redis or Valkey database; never FLUSHALL here, `private_valkey` is for that."""
    with own_redis_database(redis_server) as url:
        yield url


@pytest.fixture
def private_valkey() -> Iterator[PrivateValkey]:
    """A server for one test that flushes, freezes, kills or restarts it."""
    with services.private_valkey_server() as server:
        yield server


@pytest.fixture
def rabbitmq() -> Iterator[RabbitMQ]:
    """A broker URL and fresh queue names."""
    with own_rabbitmq_queues(services.named_server("TEST_RABBITMQ_URL")) as rabbitmq:
        yield rabbitmq


@pytest.fixture(scope="session")
def mariadb_server() -> str:
    return services.named_server("TEST_MARIADB_URL")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    with services.postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def sqlite_files(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> SqliteFiles:
    with django_db_blocker.unblock():
        return SqliteFiles(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="session")
def postgres_databases(
    postgres_server: str, django_db_blocker: DjangoDbBlocker
) -> Iterator[PostgresDatabases]:
    with django_db_blocker.unblock():
        databases = PostgresDatabases(postgres_server)
    yield databases
    databases.close()


@pytest.fixture
def sqlite_database(
    sqlite_files: SqliteFiles, django_db_blocker: DjangoDbBlocker
) -> Iterator[TestDatabase]:
    with django_db_blocker.unblock(), sqlite_files.copy() as database:
        yield database


@pytest.fixture
def postgres_database(
    postgres_databases: PostgresDatabases, django_db_blocker: DjangoDbBlocker
) -> Iterator[TestDatabase]:
    with django_db_blocker.unblock(), postgres_databases.copy() as database:
        yield database


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> TestDatabase:
    """A migrated database of one's own, as Django's default: the test runs once on each engine."""
    return request.getfixturevalue(f"{request.param}_database")
