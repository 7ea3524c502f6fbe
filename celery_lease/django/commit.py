"""`lease.commit()`: the user's writes and the job's success in one transaction."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from django.db import InterfaceError, InternalError, OperationalError, connections, transaction

from celery_lease.django import moves
from celery_lease.django.clock import read_clock
from celery_lease.django.connecting import connect, explained, writing_at_once
from celery_lease.django.ending import running
from celery_lease.django.step import Moved, Step
from celery_lease.errors import StoreUnavailable
from celery_lease.job import Kind, State
from celery_lease.stores.base import Done

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper

    from celery_lease.lease import Grant


#: Seconds; below it the pause between two statements would be silence.
_LEAST_TRUST = 1.0


@dataclass(frozen=True)
class Limits:
    """Seconds a holder may still trust its lease, and that a statement of the store may take."""

    trust: float
    statement: float


class Part(Enum):
    """Which part of a commit runs."""

    CALLERS = "the caller's writes"
    OURS = "the job's success"
    COMMIT = "COMMIT, whose answer is still missing"


class BrokenCommit(Exception):
    """The connection broke inside a commit; its cause is the driver's error."""

    def __init__(self, part: Part) -> None:
        super().__init__(part.value)
        self.part = part


@contextmanager
def committing(
    using: str,
    grant: Grant,
    encode: Callable[[object], str],
    limits: Limits,
) -> Iterator[Done]:
    """One transaction whose last statement ends the job under the grant's token.

    Args:
        using: Alias of the store's database.
        grant: The proof of holding.
        encode: Makes text of the result.
        limits: Of the holder's trust, and of the store's statements.

    Raises:
        BrokenCommit: Only the job itself can tell what it means, see `committed`.
        StoreUnavailable: The success could not be written; everything was rolled back.
        Moved: The job is not this grant's to end; everything was rolled back.
        TransactionManagementError: The user's code swallowed an error that had broken the
            transaction; everything was rolled back.
    """
    connection = connections[using]
    part, driver = Part.CALLERS, None
    try:
        with _transaction(connection, limits):
            driver = connection.connection
            done = Done()
            yield done
            result = None if done.result is None else encode(done.result)
            part = Part.OURS
            _succeed(connection, grant, result, limits.statement)
            part = Part.COMMIT
    except (OperationalError, InterfaceError, InternalError) as error:
        # Django replaces a connection that it could not roll back.
        broken = connection.connection is not driver or not connection.is_usable()
        if broken or part is Part.COMMIT:
            raise BrokenCommit(part) from error
        if part is Part.OURS:
            raise StoreUnavailable(f"commit of job {grant.job_id} failed: {error}") from error
        raise


@contextmanager
def _transaction(connection: BaseDatabaseWrapper, limits: Limits) -> Iterator[None]:
    with explained(connection):
        connect(connection, limits.statement)
    # `durable`: inside somebody else's transaction nothing would be committed at the end.
    with (
        writing_at_once(connection, limits.statement),
        transaction.atomic(using=connection.alias, durable=True),
    ):
        with explained(connection):
            # The server ends a transaction whose holder fell silent, and so frees its job.
            read_clock(connection, idle=max(limits.trust, _LEAST_TRUST))
        yield


def _succeed(
    connection: BaseDatabaseWrapper, grant: Grant, result: str | None, limit: float
) -> None:
    # The user's statements are over: from here on the store's limit holds. Inside a test's
    # transaction it would hold for the rest of the test.
    outermost = len(connection.atomic_blocks) == 1
    step = Step(connection.alias, read_clock(connection, statement=limit if outermost else None))
    job = running(step, grant)
    step.record(job, Kind.SUCCEEDED)
    step.write_events()
    # Last, and alone in locking the job: nothing of ours can fail after it, and whoever
    # takes leases away is held up no longer than the commit itself takes.
    step.move(job, **moves.ended(step, job, State.SUCCEEDED), result=result, failure=None)


def committed(step: Step, grant: Grant) -> bool:
    """Whether a commit whose connection broke happened.

    Asked by a write: it waits for a transaction that may still be on its way.

    Raises:
        Moved: It did not, and the job is not this grant's any more: the server also ends the
            transaction of a holder that was silent for longer than it may trust its lease.
    """
    if step.jobs.running_under(grant).update(updated_at=step.now):
        return False
    if not step.jobs.under(grant).filter(state=State.SUCCEEDED).exists():
        raise Moved
    return True
