"""The store's clock: the database server's, or this host's where the database is a file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from django.db import NotSupportedError
from django.db.models import Func

from celery_lease.django.fields import MomentField, moment

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models.sql.compiler import SQLCompiler

# Not now(), which stands still in a transaction.
_POSTGRESQL = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"


class Clock(Func):
    """The time at which the statement that holds it looks at a row."""

    output_field = MomentField()

    def as_sql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, *_: Any, **__: Any
    ) -> tuple[str, Any]:
        """Refuse a database whose clock nobody has chosen."""
        del compiler
        raise NotSupportedError(f"celery-lease does not know the clock of {connection.vendor}")

    def as_postgresql(self, *_: Any, **__: Any) -> tuple[str, Any]:
        """Ask the server."""
        return _POSTGRESQL, []

    def as_sqlite(self, *_: Any, **__: Any) -> tuple[str, Any]:
        """Ask this host: whoever shares the file shares the host."""
        return "%s", [_host_microseconds()]


def as_microseconds(wait: timedelta) -> int:
    """A duration as columns hold it."""
    return (wait.days * 86_400 + wait.seconds) * 1_000_000 + wait.microseconds


def read_clock(
    connection: BaseDatabaseWrapper, *, statement: float | None = None, idle: float | None = None
) -> datetime:
    """The store's time.

    The limits ride along with the question, so that they cost no round trip of their own.

    Args:
        connection: Where to ask.
        statement: Seconds any later statement of this transaction may take, locks included.
        idle: Seconds this transaction may wait for its client before the server ends it: a
            process that was stopped must not keep its locks.
    """
    if connection.vendor != "postgresql":
        return moment(_host_microseconds())
    limits = {"statement_timeout": statement, "idle_in_transaction_session_timeout": idle}
    asked, parameters = [_POSTGRESQL], []
    for name, seconds in limits.items():
        if seconds is not None:
            asked.append(f"set_config('{name}', %s, true)")
            parameters.append(str(max(1, int(seconds * 1000))))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(asked)}", parameters)  # our own words
        return moment(cursor.fetchone()[0])


def _host_microseconds() -> int:
    return time.time_ns() // 1000
