"""`lease.commit()`: the user's writes and the job's success in one transaction."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import connections, transaction

from celery_lease.django import moves
from celery_lease.django.clock import read_clock
from celery_lease.django.connecting import writing_at_once
from celery_lease.django.ending import running
from celery_lease.django.step import Step
from celery_lease.job import Kind, State
from celery_lease.stores.base import Done

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper

    from celery_lease.lease import Grant


@contextmanager
def committing(
    using: str, grant: Grant, encode: Callable[[object], str], trust: float
) -> Iterator[Done]:
    """One transaction whose last statement ends the job under the grant's token.

    Args:
        using: Alias of the store's database.
        grant: The proof of holding.
        encode: Makes text of the result.
        trust: Seconds the holder may still trust its lease.

    Raises:
        Moved: The job is not this grant's to end; everything was rolled back.
        TransactionManagementError: The user's code swallowed an error that had broken the
            transaction; everything was rolled back.
    """
    connection = connections[using]
    # `durable`: inside somebody else's transaction nothing would be committed at the end.
    with (
        writing_at_once(connection, trust),
        transaction.atomic(using=using, durable=True),
    ):
        _end_when_abandoned(connection, trust)
        done = Done()
        yield done
        _succeed(connection, grant, None if done.result is None else encode(done.result))


def _end_when_abandoned(connection: BaseDatabaseWrapper, trust: float) -> None:
    """Let the server end a transaction whose holder fell silent, and so free its job."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('idle_in_transaction_session_timeout', %s, true)",
                [str(max(1, int(trust * 1000)))],
            )


def _succeed(connection: BaseDatabaseWrapper, grant: Grant, result: str | None) -> None:
    step = Step(connection.alias, read_clock(connection, None))
    job = running(step, grant)
    step.record(job, Kind.SUCCEEDED)
    step.write_events()
    # Last, and alone in locking the job: nothing of ours can fail after it, and whoever
    # takes leases away is held up no longer than the commit itself takes.
    step.move(job, **moves.ended(step, job, State.SUCCEEDED), result=result, failure=None)
