"""A migrated database of its own for each test: real commits, seen by threads and workers.

Migrations run once per engine and session; every test gets a copy.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
from django.core.management import call_command
from django.db import connections
from psycopg import sql

from tests.django_settings import database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class TestDatabase:
    """Django's default database while the test runs."""

    __test__ = False

    vendor: Literal["sqlite", "postgresql"]
    url: str

    @property
    def env(self) -> dict[str, str]:
        """The environment of a worker that shall use this database."""
        settings = "tests.django_settings"
        return {"TEST_DATABASE_URL": self.url, "DJANGO_SETTINGS_MODULE": settings}


class SqliteFiles:
    """Migrated SQLite databases, each a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._template = folder / "template.sqlite3"
        migrate(self._url(self._template))

    @contextmanager
    def copy(self) -> Iterator[TestDatabase]:
        path = self._folder / f"{uuid4().hex[:12]}.sqlite3"
        shutil.copy(self._template, path)
        with default_database(self._url(path)):
            yield TestDatabase("sqlite", self._url(path))

    @staticmethod
    def _url(path: Path) -> str:
        return f"sqlite:///{path}"


class PostgresDatabases:
    """Migrated PostgreSQL databases, each made from one template."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._template = self._create()
        migrate(self._url(self._template))

    @contextmanager
    def copy(self) -> Iterator[TestDatabase]:
        name = self._create(self._template)
        try:
            with default_database(self._url(name)):
                yield TestDatabase("postgresql", self._url(name))
        finally:
            self._drop(name)

    def close(self) -> None:
        self._drop(self._template)

    def _create(self, template: str = "template1") -> str:
        name = f"lease_test_{uuid4().hex[:12]}"
        self._execute("CREATE DATABASE {} TEMPLATE {}", name, template)
        return name

    def _drop(self, name: str) -> None:
        # Forced: a killed worker's connection may not have ended yet.
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _execute(self, statement: str, *names: str) -> None:
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def _url(self, name: str) -> str:
        return urlsplit(self._server_url)._replace(path=f"/{name}").geturl()


def migrate(url: str) -> None:
    with default_database(url):
        call_command("migrate", verbosity=0)


@contextmanager
def default_database(url: str) -> Iterator[None]:
    """Django's alias `default` means the database at `url`, for every thread of this process."""
    before = connections.settings["default"]
    _replace_default(connections.configure_settings({"default": database(url)})["default"])
    try:
        yield
    finally:
        _replace_default(before)


def _replace_default(described: dict[str, object]) -> None:
    connections["default"].close()
    del connections["default"]
    connections.settings["default"] = described
