"""INSERT … ON CONFLICT DO NOTHING that tells which rows were new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connections
from django.db.models.constants import OnConflict
from django.db.models.sql import InsertQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import Model


def insert_new(rows: Sequence[Model], using: str) -> set[str]:
    """Insert what is not there yet, in one statement.

    A row that another transaction is inserting is waited for. `bulk_create` with
    `ignore_conflicts` does the same, but cannot say which rows it ignored.

    Returns:
        The primary keys that were not there before.
    """
    if not rows:
        return set()
    meta = type(rows[0])._meta  # noqa: SLF001  # Django's documented API
    query = InsertQuery(type(rows[0]), on_conflict=OnConflict.IGNORE)
    query.insert_values(meta.concrete_fields, list(rows))
    compiler = query.get_compiler(using)
    compiler.returning_fields = [meta.pk]
    ((statement, parameters),) = compiler.as_sql()
    with connections[using].cursor() as cursor:
        cursor.execute(statement, parameters)
        return {row[0] for row in cursor.fetchall()}
