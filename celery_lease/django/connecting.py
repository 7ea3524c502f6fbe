"""How the store uses Django's connection: short transactions, bounded waits, clear errors."""

from __future__ import annotations

import math
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from django.db import (
    Error,
    InterfaceError,
    InternalError,
    OperationalError,
    ProgrammingError,
    transaction,
)

from celery_lease.errors import (
    ConfigurationError,
    LeaseError,
    StoreUnavailable,
    TransactionModeError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from django.db.backends.base.base import BaseDatabaseWrapper

_NO_TABLE = ("42P01", "42703")
#: PostgreSQL ended the connection: idle in a transaction, or a transaction too long.
_ENDED = ("25P03", "25P04")


@contextmanager
def own_transaction(connection: BaseDatabaseWrapper, timeout: float) -> Iterator[None]:
    """A transaction of the store's own, a savepoint inside somebody else's."""
    with explained(connection):
        if connection.in_atomic_block:
            with transaction.atomic(using=connection.alias):
                yield
        else:
            connect(connection, timeout)
            with (
                writing_at_once(connection, timeout),
                _looking_again(connection),
                transaction.atomic(using=connection.alias),
            ):
                yield


@contextmanager
def explained(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Errors of the driver as errors of the store; a broken connection is not kept."""
    try:
        yield
    except (OperationalError, InterfaceError, InternalError, ProgrammingError) as error:
        reason = _explain(connection, error)
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
        if reason is None:
            raise
        raise reason from error


def connect(connection: BaseDatabaseWrapper, timeout: float) -> None:
    """Connect if need be, and give up after `timeout` seconds where the driver can."""
    if connection.connection is not None or connection.vendor != "postgresql":
        connection.ensure_connection()
        return
    settings = connection.settings_dict
    # libpq reads 1 as 2; a time that the project has set stays.
    limit = {"connect_timeout": max(2, math.ceil(timeout))}
    connection.settings_dict = {**settings, "OPTIONS": {**limit, **settings["OPTIONS"]}}
    try:
        connection.ensure_connection()
    finally:
        connection.settings_dict = settings


def writing_at_once(
    connection: BaseDatabaseWrapper, timeout: float
) -> AbstractContextManager[None]:
    """On SQLite transactions begin as writers, and wait at most `timeout` seconds for it."""
    return _immediate(connection, timeout) if connection.vendor == "sqlite" else nullcontext()


@contextmanager
def _looking_again(connection: Any) -> Iterator[None]:
    """On PostgreSQL a statement that waited for a row sees what became of it.

    A project may have asked for more isolation, under which such a statement fails.
    """
    strict = getattr(connection, "isolation_level", None)
    if strict is None or strict == type(strict).READ_COMMITTED:
        yield
        return
    driver = connection.connection
    driver.isolation_level = type(strict).READ_COMMITTED
    try:
        yield
    finally:
        if connection.connection is driver and not driver.closed:
            driver.isolation_level = strict


@contextmanager
def _immediate(connection: Any, timeout: float) -> Iterator[None]:
    # A transaction that reads first cannot become a writer once another one has written,
    # however long it waits.
    mode, limit = connection.transaction_mode, connection.settings_dict["OPTIONS"].get("timeout", 5)
    connection.transaction_mode = "IMMEDIATE"
    _wait_at_most(connection, min(timeout, limit))
    try:
        yield
    finally:
        connection.transaction_mode = mode
        _wait_at_most(connection, limit)


def _wait_at_most(connection: Any, seconds: float) -> None:
    if connection.connection is not None:
        connection.connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


def _explain(connection: BaseDatabaseWrapper, error: Error) -> LeaseError | None:
    if _lacks_table(error):
        return ConfigurationError(
            f"the tables of celery_lease in database {connection.alias!r} are missing or of "
            f"another version: run `manage.py migrate --database {connection.alias}` ({error})"
        )
    if isinstance(error, ProgrammingError) or (
        isinstance(error, InternalError) and _code(error) not in _ENDED
    ):
        return None
    if connection.in_atomic_block and _refused_upgrade(connection, error):
        return TransactionModeError(
            "SQLite refused to let a transaction that had only read begin to write; set "
            f'DATABASES[{connection.alias!r}]["OPTIONS"]["transaction_mode"] = "IMMEDIATE"'
        )
    return StoreUnavailable(f"the job store in database {connection.alias!r} failed: {error}")


def _lacks_table(error: Error) -> bool:
    return _code(error) in _NO_TABLE or str(error).startswith(("no such table", "no such column"))


def _code(error: Error) -> str | None:
    code: str | None = getattr(error.__cause__, "sqlstate", None)
    return code


def _refused_upgrade(connection: Any, error: Error) -> bool:
    deferred = connection.vendor == "sqlite" and connection.transaction_mode in (None, "DEFERRED")
    return deferred and "database is locked" in str(error)
