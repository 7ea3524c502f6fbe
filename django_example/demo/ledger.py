"""What the receiver has seen and applied, in an SQLite file of its own."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS request (
    key TEXT NOT NULL, tenant TEXT NOT NULL, event TEXT NOT NULL, token TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS request_key ON request (key);
CREATE TABLE IF NOT EXISTS known_key (key TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS effect (key TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS effect_key ON effect (key);
"""

# The effects are counted by themselves, so that one applied twice would be seen.
SUMMARY = """
SELECT key, min(tenant) AS tenant, min(event) AS event, count(*) AS requests,
       (SELECT count(*) FROM effect WHERE effect.key = request.key) AS applied
FROM request GROUP BY key
"""


class Ledger:
    """Requests, idempotency keys and effects; each method is one transaction.

    Args:
        path: The file; it keeps what was in it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._transaction() as database:
            # Not executescript: that would end the transaction.
            for statement in filter(str.strip, SCHEMA.split(";")):
                database.execute(statement)

    def note_request(self, key: str, tenant: str, event: str, token: str) -> int:
        """Write a request down and return how many there have been under its key."""
        with self._transaction() as database:
            database.execute("INSERT INTO request VALUES (?, ?, ?, ?)", (key, tenant, event, token))
            (count,) = database.execute(
                "SELECT count(*) FROM request WHERE key = ?", (key,)
            ).fetchone()
        return int(count)

    def apply_once(self, key: str) -> bool:
        """Apply the effect of a key, and tell whether it was not applied before.

        Key and effect are written together: what makes repeating harmless is
        that neither can be there without the other.
        """
        with self._transaction() as database:
            known = database.execute(
                "INSERT INTO known_key VALUES (?) ON CONFLICT DO NOTHING", (key,)
            )
            is_new = known.rowcount == 1
            if is_new:
                database.execute("INSERT INTO effect VALUES (?)", (key,))
        return is_new

    def summary(self) -> list[dict[str, object]]:
        """Return for each key its tenant, event, number of requests and of effects."""
        with self._transaction() as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(SUMMARY)]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self._path, timeout=20, isolation_level=None)
        try:
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")
        finally:
            database.close()
