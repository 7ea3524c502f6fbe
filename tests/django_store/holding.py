"""Two calls at once on PostgreSQL: one held at a statement, another that waits for its locks."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db import connection, connections

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: How long a held call waits to be let go, and its caller for its answer.
PATIENCE = 10.0


class Held:
    """A call in another thread that stops right after its first statement of one kind."""

    def __init__(self, beginning: str) -> None:
        self._beginning = beginning
        self._reached = threading.Event()
        self._go_on = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self.future: Future[Any]

    def start(self, call: Callable[[], Any]) -> None:
        self.future = self._pool.submit(closing, lambda: self._run(call))
        assert self._reached.wait(PATIENCE), self.future

    def _run(self, call: Callable[[], Any]) -> Any:
        with connections["default"].execute_wrapper(self._stop):
            return call()

    def _stop(self, execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        answer = execute(sql, params, many, context)
        if sql.startswith(self._beginning) and not self._reached.is_set():
            self._reached.set()
            self._go_on.wait(PATIENCE)
        return answer

    def finish(self) -> Any:
        self._go_on.set()
        return self.future.result(PATIENCE)

    def close(self) -> None:
        self._go_on.set()
        self._pool.shutdown()


@contextmanager
def held(beginning: str, call: Callable[[], Any]) -> Iterator[Held]:
    """Starts `call` and stops it right after the statement that begins so."""
    one = Held(beginning)
    try:
        one.start(call)
        yield one
    finally:
        one.close()


@contextmanager
def waiting(call: Callable[[], Any]) -> Iterator[Future[Any]]:
    """Starts `call`, which by now waits for a lock that somebody else holds."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(closing, call)
        wait_for(somebody_waits, what="call that waits for a lock")
        yield future


def somebody_waits() -> bool:
    return bool(_ask("SELECT count(*) FROM {others} AND wait_event_type = 'Lock'"))


def somebody_is_idle_in_a_transaction() -> bool:
    return bool(_ask("SELECT count(*) FROM {others} AND state LIKE 'idle in transaction%'"))


def kill_others() -> None:
    """Ends every other connection to the database, as a restarted server does."""
    _ask("SELECT pg_terminate_backend(pid) FROM {others}")


def _ask(query: str) -> object:
    others = "pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with connection.cursor() as cursor:
        cursor.execute(query.format(others=others))
        row = cursor.fetchone()
        return row[0] if row else None


def elsewhere(call: Callable[[], Any]) -> Any:
    """Makes `call` in a thread, and so on a connection, of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(closing, call).result(PATIENCE)


def closing(call: Callable[[], Any]) -> Any:
    """Makes `call` and closes what it left open in this thread."""
    try:
        return call()
    finally:
        connections["default"].close()
