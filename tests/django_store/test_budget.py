"""What each verb costs: its statements, one by one.

Beside those of the table a verb has one BEGIN and one COMMIT, and on PostgreSQL one statement
that asks the clock and limits the time of the others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from celery_lease.testing.contract.scene import (
    FAILURE,
    PAST_TTL,
    bury,
    claim,
    finish,
    hold,
    hold_new,
    new,
    submit,
)
from tests.django_store.conftest import shift_times

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_lease.lease import Grant
    from celery_lease.stores.base import JobStore

PREFIX = re.compile(r'\W*(SELECT|INSERT|UPDATE|DELETE)\b.*?"celery_lease_(\w+)"', re.DOTALL)
BRACKET = re.compile("BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE")


@dataclass(frozen=True)
class Verb:
    """One call, what it meets, and what it may cost."""

    name: str
    prepare: Callable[[JobStore], Any]
    call: Callable[[JobStore, Any], object]
    statements: str


def nothing(_: JobStore) -> None:
    """An empty store."""


def joined(store: JobStore) -> Grant:
    """Held by way of a submission that joined."""
    submit(store, new("first", "key"))
    submit(store, new("second", "key"))
    return hold(store, "second")


def succeeded(store: JobStore, held: Callable[[JobStore], Grant] = hold_new) -> Grant:
    grant = held(store)
    store.succeed(grant, "1")
    return grant


def joined_succeeded(store: JobStore) -> Grant:
    return succeeded(store, joined)


def three(store: JobStore) -> list[Grant]:
    return [hold_new(store, new(name)) for name in "abc"]


def slipped(store: JobStore) -> None:
    """Two jobs whose leases have ended."""
    for name in "ab":
        hold_new(store, new(name))
    shift_times("default", PAST_TTL)


def ten_due(store: JobStore) -> None:
    store.submit([new(f"job {n}") for n in range(10)])
    shift_times("default", 3600)


def prunable(store: JobStore) -> None:
    for name in "ab":
        finish(store, new(name))
    shift_times("default", 32 * 86_400)


def commit(store: JobStore, grant: Grant) -> None:
    with store.commit(grant, str) as done:
        done.result = 1


CREATE = "SELECT job, INSERT job, INSERT jobevent"
JOIN = "SELECT job, INSERT submission, INSERT jobevent"
END = "SELECT job, UPDATE job, INSERT jobevent"
HAND_BACK = "SELECT job, DELETE joblease, UPDATE job, INSERT jobevent"
TAKE_TWO = "SELECT joblease, SELECT job, DELETE joblease, UPDATE job, UPDATE job, INSERT jobevent"
SETTLE_JOINED = (
    # The job, which waits for the outcome too; the submission; the others that joined.
    "SELECT job, DELETE joblease, UPDATE job, UPDATE submission, UPDATE submission, INSERT jobevent"
)
# The second look is for a submission that joined before the rows were locked.
PRUNE = "DELETE worker, SELECT job, SELECT job, DELETE jobevent, DELETE submission, DELETE job"

TABLE = (
    Verb("submit 1", nothing, lambda s, _: submit(s), CREATE),
    Verb("submit 10", nothing, lambda s, _: s.submit([new(f"{n}") for n in range(10)]), CREATE),
    Verb("submit again", submit, lambda s, _: submit(s), "SELECT job"),
    Verb("join", lambda s: submit(s, new("a", "k")), lambda s, _: submit(s, new("b", "k")), JOIN),
    Verb(
        "claim",
        submit,
        lambda s, _: claim(s),
        "SELECT job, UPDATE job, INSERT joblease, INSERT jobevent",
    ),
    Verb("claim busy", hold_new, lambda s, _: claim(s), "SELECT job"),
    Verb("claim finished", finish, lambda s, _: claim(s), "SELECT job"),
    Verb("renew 1", hold_new, lambda s, g: s.renew([g]), "UPDATE joblease"),
    Verb("renew 3", three, lambda s, grants: s.renew(grants), "UPDATE joblease"),
    Verb("succeed", hold_new, lambda s, g: s.succeed(g, "1"), END),
    Verb(
        "succeed joined",
        joined,
        lambda s, g: s.succeed(g, "1"),
        "SELECT job, SELECT submission, UPDATE job, INSERT jobevent",
    ),
    Verb("settle", succeeded, lambda s, g: s.settle(g), HAND_BACK),
    Verb("settle joined", joined_succeeded, lambda s, g: s.settle(g), SETTLE_JOINED),
    Verb("retry", hold_new, lambda s, g: s.fail(g, FAILURE, 5.0), HAND_BACK),
    Verb("die", hold_new, lambda s, g: s.fail(g, FAILURE, None), END),
    Verb("release", hold_new, lambda s, g: s.release(g), HAND_BACK),
    Verb("checkpoint", hold_new, lambda s, g: s.save_checkpoint(g, "1"), "UPDATE job"),
    Verb("expire 2", slipped, lambda s, _: s.expire(10), TAKE_TWO),
    Verb("expire none", hold_new, lambda s, _: s.expire(10), "SELECT joblease"),
    Verb("due 10", ten_due, lambda s, _: s.due(10), "SELECT job, SELECT submission, UPDATE job"),
    Verb("due none", nothing, lambda s, _: s.due(10), "SELECT job, SELECT submission"),
    Verb(
        "next due",
        hold_new,
        lambda s, _: s.next_due_in(),
        "SELECT joblease, SELECT job, SELECT submission",
    ),
    Verb(
        "cancel",
        submit,
        lambda s, _: s.cancel("a", "ada"),
        "SELECT job, SELECT job, DELETE joblease, UPDATE job, INSERT jobevent",
    ),
    Verb("replay", bury, lambda s, _: s.replay("a", "ada"), HAND_BACK),
    Verb("prune", prunable, lambda s, _: s.prune(10), PRUNE),
    Verb("prune none", nothing, lambda s, _: s.prune(10), "DELETE worker, SELECT job"),
)


@pytest.mark.parametrize("verb", TABLE, ids=lambda verb: verb.name)
def test_verb_costs(store: JobStore, verb: Verb) -> None:
    met = verb.prepare(store)
    with CaptureQueriesContext(connection) as captured:
        verb.call(store, met)
    brackets, statements = split([query["sql"] for query in captured])
    assert brackets == ["BEGIN", "COMMIT"]
    assert without_clock(statements) == verb.statements


def test_a_commit_costs(store: JobStore) -> None:
    grant = hold_new(store)
    with CaptureQueriesContext(connection) as captured:
        commit(store, grant)
    brackets, statements = split([query["sql"] for query in captured])
    assert brackets == ["BEGIN", "COMMIT"]
    if connection.vendor == "postgresql":
        assert "idle_in_transaction_session_timeout" in statements.pop(0)
    assert without_clock(statements) == "SELECT job, INSERT jobevent, UPDATE job"


def test_a_refusal_costs_its_record(store: JobStore) -> None:
    grant = hold_new(store)
    store.release(grant)
    with CaptureQueriesContext(connection) as captured:
        assert not store.settle(grant)
    brackets, statements = split([query["sql"] for query in captured])
    assert brackets == ["BEGIN", "ROLLBACK", "BEGIN", "COMMIT"]
    refused, recorded = statements[: len(statements) // 2], statements[len(statements) // 2 :]
    assert without_clock(refused) == "SELECT job"
    assert without_clock(recorded) == "SELECT job, INSERT jobevent"


def split(executed: list[str]) -> tuple[list[str], list[str]]:
    """The brackets of transactions, and what is between them."""
    brackets = [BRACKET.match(sql) for sql in executed]
    words = [found[0] for found in brackets if found]
    return words, [sql for sql, found in zip(executed, brackets, strict=True) if not found]


def without_clock(statements: list[str]) -> str:
    """Verb and table of each, in short."""
    if connection.vendor == "postgresql":
        assert "clock_timestamp()" in statements[0]
        statements = statements[1:]
    matches = [PREFIX.match(sql) for sql in statements]
    return ", ".join(f"{found[1]} {found[2]}" if found else "?" for found in matches)
