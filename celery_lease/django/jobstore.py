"""The job store in a database of a Django project."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import connections, transaction

from celery_lease.django import (
    claiming,
    counting,
    ending,
    operating,
    publishing,
    renewing,
    submitting,
    taking,
)
from celery_lease.django.clock import read_clock
from celery_lease.django.commit import BrokenCommit, Limits, Part, committed, committing
from celery_lease.django.connecting import connect, explained, own_transaction
from celery_lease.django.finding import find
from celery_lease.django.step import Moved, Step
from celery_lease.errors import StaleToken, StoreUnavailable, WrongJobState
from celery_lease.job import (
    Busy,
    Claim,
    Counts,
    Due,
    Event,
    Expired,
    Failure,
    Job,
    NewJob,
    Renewal,
    Submitted,
)
from celery_lease.stores.base import Done, JobStore, Replacement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from django.db.backends.base.base import BaseDatabaseWrapper

    from celery_lease.lease import Grant

logger = logging.getLogger(__name__)

#: How often a step starts again because somebody moved its job meanwhile.
_ROUNDS = 5


class DjangoStore(JobStore):
    """Jobs in tables of a Django database.

    Each verb is a short transaction of its own on the calling thread's connection, and a
    savepoint inside a transaction that is open there; `submit` joins it.

    Args:
        using: Alias of the database.
        timeout: Seconds a statement may take, and a connection to be made.
    """

    def __init__(self, using: str = "default", timeout: float = 2.5) -> None:
        self.using = using
        self.timeout = timeout

    # -- submission --------------------------------------------------------

    def submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        if not jobs:
            return []
        # One alone writes nothing before it knows; only more may have to be undone.
        simple = len(jobs) == 1 and jobs[0].on_dead != "replay"
        begin = self._joined if simple and self._connection.in_atomic_block else self._step
        for _ in range(_ROUNDS):
            try:
                with begin() as step:
                    return submitting.submit(step, jobs)
            except Moved:
                continue
        raise StoreUnavailable("others keep submitting the same jobs; nothing was written")

    def after_commit(self, publish: Callable[[], None]) -> None:
        transaction.on_commit(publish, using=self.using, robust=True)

    def published(self, task_ids: Sequence[str], republish_after: float, epoch: str = "") -> None:
        with self._step() as step:
            publishing.published(step, task_ids, republish_after, epoch)

    def due(self, limit: int) -> list[Due]:
        with self._step() as step:
            return publishing.due(step, limit)

    def next_due_in(self) -> float | None:
        with self._step() as step:
            return publishing.next_due_in(step)

    def publish_again(self, task_ids: Sequence[str], delay: float) -> None:
        with self._step() as step:
            publishing.publish_again(step, task_ids, delay)

    def broker_lost_data(self, epoch: str, limit: int) -> int:
        with self._step() as step:
            return publishing.broker_lost_data(step, epoch, limit)

    # -- holding -----------------------------------------------------------

    def claim(self, task_id: str, *, task: str, owner: str, ttl: float) -> Claim:
        by = claiming.Claimant(task_id, task, owner, ttl)
        for _ in range(_ROUNDS):
            try:
                with self._step() as step:
                    return claiming.claim(step, by)
            except Moved:
                continue
        return Busy()

    def renew(self, grants: Sequence[Grant]) -> Renewal:
        with self._step() as step:
            return renewing.renew(step, grants)

    def succeed(
        self, grant: Grant, result: str | None, *, settled: bool = False, reason: str = ""
    ) -> Job:
        with self._fenced(grant, "succeed") as step:
            return ending.succeed(step, grant, result, settled=settled, reason=reason).as_record()

    def fail(
        self,
        grant: Grant,
        failure: Failure,
        retry_in: float | None,
        replacement: Replacement | None = None,
    ) -> Job:
        with self._fenced(grant, "fail") as step:
            return ending.fail(step, grant, failure, retry_in, replacement).as_record()

    def release(self, grant: Grant, delay: float = 0.0, reason: str = "") -> Job:
        with self._fenced(grant, "release") as step:
            return ending.release(step, grant, delay, reason).as_record()

    def amend(self, grant: Grant, result: str) -> None:
        with self._fenced(grant, "amend") as step:
            ending.amend(step, grant, result)

    def settle(self, grant: Grant) -> bool:
        try:
            with self._fenced(grant, "settle") as step:
                ending.settle(step, grant)
        except StaleToken:
            return False
        return True

    def save_checkpoint(self, grant: Grant, checkpoint: str) -> None:
        with self._fenced(grant, "checkpoint") as step:
            ending.save_checkpoint(step, grant, checkpoint)

    def refused(self, grant: Grant, what: str) -> None:
        with self._step() as step:
            ending.refused(step, grant, what)

    @contextmanager
    def commit(
        self, grant: Grant, encode: Callable[[object], str], trust: float | None = None
    ) -> Iterator[Done]:
        limits = Limits(grant.ttl if trust is None else trust, self.timeout)
        with self._refusing(grant, "commit"):
            try:
                with committing(self.using, grant, encode, limits) as done:
                    yield done
            except BrokenCommit as broken:
                self._judge(grant, broken)

    def _judge(self, grant: Grant, broken: BrokenCommit) -> None:
        """Go on if the commit happened after all; otherwise raise what it means."""
        self._connection.close()
        with self._step() as step:
            happened = committed(step, grant)
        if broken.part is Part.CALLERS and broken.__cause__:
            raise broken.__cause__
        if not happened or broken.part is not Part.COMMIT:
            cause = broken.__cause__
            raise StoreUnavailable(f"commit of job {grant.job_id} failed: {cause}") from broken
        logger.warning("job %s was committed, but the answer was lost", grant.job_id)

    # -- sweeping and operating -------------------------------------------

    def expire(self, limit: int) -> list[Expired]:
        with self._step() as step:
            return taking.expire(step, limit)

    def expire_owner(self, owner: str, reason: str) -> list[Expired]:
        with self._step() as step:
            return taking.expire_owner(step, owner, reason)

    def cancel(self, task_id: str, by: str) -> bool:
        for _ in range(_ROUNDS):
            try:
                with self._step() as step:
                    return operating.cancel(step, task_id, by)
            except Moved:
                self._wait_for_writers(task_id)
        raise StoreUnavailable(
            f"job {task_id} is being written all the time; nothing was cancelled"
        )

    def _wait_for_writers(self, task_id: str) -> None:
        # One after the other: who waits for the job's row must not hold the lease's.
        for wait in (operating.wait_for_lease, operating.wait_for_job):
            with self._step() as step:
                wait(step, task_id)

    def replay(self, job_id: str, by: str) -> Job:
        for _ in range(_ROUNDS):
            try:
                with self._step() as step:
                    return self._replayed(step, job_id, by)
            except Moved:
                continue
        raise StoreUnavailable(f"job {job_id} is being written all the time; it was not replayed")

    @staticmethod
    def _replayed(step: Step, job_id: str, by: str) -> Job:
        job = step.jobs.with_lease().filter(pk=job_id).first()
        if job is None:
            raise WrongJobState(f"there is no job {job_id}")
        operating.replay(step, job, by)
        return job.as_record()

    def prune(self, limit: int) -> int:
        with self._step() as step:
            return operating.prune(step, limit)

    def register_worker(self, name: str, ttl: float) -> None:
        with self._step() as step:
            operating.register_worker(step, name, ttl)

    def forget_worker(self, name: str) -> None:
        with self._step() as step:
            operating.forget_worker(step, name)

    # -- reading -----------------------------------------------------------

    def workers(self) -> list[str]:
        with self._reading() as step:
            names = step.workers.filter(until__gt=step.now).values_list("name", flat=True)
            return sorted(names)

    def get(self, task_id: str) -> Job | None:
        with self._reading() as step:
            found = find(step, task_id)
            return found.job.as_record() if found else None

    def counts(self) -> Counts:
        with self._reading() as step:
            return counting.counts(step)

    def events(self, job_id: str, limit: int = 1000) -> list[Event]:
        with self._reading() as step:
            rows = step.events.filter(job=job_id).order_by("id")[:limit]
            return [row.as_record() for row in rows]

    def interrupted(self) -> None:
        self._connection.close()
        if self._connection.in_atomic_block:
            # A transaction whose end the interrupt cut off would never end.
            del connections[self.using]

    def close(self) -> None:
        self._connection.close()

    # -- steps -------------------------------------------------------------

    @property
    def _connection(self) -> BaseDatabaseWrapper:
        return connections[self.using]

    @contextmanager
    def _step(self) -> Iterator[Step]:
        """A transaction of its own, or a savepoint of an open one."""
        connection = self._connection
        limit = None if connection.in_atomic_block else self.timeout
        with own_transaction(connection, self.timeout):
            step = Step(self.using, read_clock(connection, statement=limit, idle=limit))
            yield step
            step.write_events()

    @contextmanager
    def _joined(self) -> Iterator[Step]:
        """The caller's transaction, as it is."""
        connection = self._connection
        with explained(connection):
            connect(connection, self.timeout)
            step = Step(self.using, read_clock(connection))
            yield step
            step.write_events()

    def _reading(self) -> AbstractContextManager[Step]:
        return self._joined()

    @contextmanager
    def _fenced(self, grant: Grant, what: str) -> Iterator[Step]:
        """A step that is refused, and the refusal recorded, for a holder of an old token."""
        with self._refusing(grant, what), self._step() as step:
            yield step

    @contextmanager
    def _refusing(self, grant: Grant, what: str) -> Iterator[None]:
        try:
            yield
        except Moved:
            stale = f"{what} of job {grant.job_id} with old token {grant.token} was refused"
            try:
                # On the same connection, right after the rollback.
                self.refused(grant, what)
            except StoreUnavailable:
                logger.warning("%s, which could not be recorded", stale, exc_info=True)
            raise StaleToken(stale) from None
