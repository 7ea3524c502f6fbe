"""The run path of a leased task, from the claim to the hand-over.

Read `Attempt.run` first. What it returns or raises goes to Celery's tracer,
which hands out result and followers; `settling.py` then settles the job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from celery.exceptions import Ignore

from celery_lease import absence, handover, keys, signals
from celery_lease.clock import SystemClock
from celery_lease.errors import Interrupt, NoLease, StoreUnavailable
from celery_lease.holdings import Holding
from celery_lease.interrupts import InterruptGate
from celery_lease.job import Claim, Claimed, Gone, Job, OtherTask, Unsettled
from celery_lease.lease import Grant, Lease, Terms
from celery_lease.outcome import Interrupted, Outcome, outcome_of
from celery_lease.owner import owner
from celery_lease.policy import overridden
from celery_lease.reporting import Reporter
from celery_lease.results import storable
from celery_lease.runtime import runtime_of
from celery_lease.submission import overrides_of

if TYPE_CHECKING:
    from celery_lease.retrying import Asked
    from celery_lease.task import LeasedTask

logger = logging.getLogger(__name__)

#: The lease of the attempt that runs in this thread, task or greenlet.
current: ContextVar[Lease | None] = ContextVar("celery_lease_current", default=None)

Body = Callable[[Any, Any], Any]


class Attempt:
    """One delivery of a leased task's message.

    Args:
        task: The task.
        request: Celery's request, the tracer's own.
        args: Positional arguments of the delivered message.
        kwargs: Its keyword arguments.

    Attributes:
        job: The job as last seen.
        asked: What `retry()` was called with.
        gave_up: The exception that left `retry()`.
        replaced: Whether `replace()` was called.
        handed_over: Whether the result backend has taken the verdict.
    """

    def __init__(self, task: LeasedTask, request: Any, args: Any, kwargs: Any) -> None:
        self.task = task
        self.request = request
        self.args = args
        self.kwargs = kwargs
        self.options = overridden(task.lease_options, overrides_of(request))
        self.runtime = runtime_of(task.app, self.options)
        self.task_id = keys.submission_id(request.id, request.replaced_task_nesting or 0)
        self.job: Job | None = None
        self.holding: Holding | None = None
        self.asked: Asked | None = None
        self.gave_up: BaseException | None = None
        self.replaced = False
        self.handed_over = False
        self._monotonic = SystemClock().monotonic

    def run(self, body: Body) -> Any:
        """Claim the job, then run its body or hand out what is recorded.

        Returns:
            The task's result, for the tracer to hand out.

        Raises:
            Ignore, Reject, Retry: As the tracer understands them.
            Exception: The job is dead; the tracer hands out a failure.
        """
        asked_at = self._monotonic()
        claim = self._claim()
        if isinstance(claim, Claimed):
            self.hold(claim.job, claim.grant, asked_at)
            return self._execute(claim.job, body)
        if isinstance(claim, Unsettled):
            self.hold(claim.job, claim.grant, asked_at)
            return handover.hand_out(self, claim)
        if isinstance(claim, OtherTask):
            logger.error("%s of %s is a job of %s", self.task_id, self.task.name, claim.task)
        raise Ignore(f"nothing to do for {self.task_id}: {type(claim).__name__}")

    def _claim(self) -> Claim:
        try:
            claim = self.claim()
            return absence.resolve(self) if isinstance(claim, Gone) else claim
        except StoreUnavailable as down:
            absence.hint_later(self, f"store is not available: {down}")
            raise Ignore(str(down)) from down

    def claim(self) -> Claim:
        """Ask the store for the job.

        Raises:
            StoreUnavailable: It did not answer.
        """
        store, ttl = self.runtime.store, self.options.ttl
        return store.claim(self.task_id, task=self.task.name, owner=owner(), ttl=ttl)

    def hold(self, job: Job, grant: Grant, asked_at: float) -> Lease:
        """Keep the lease of a granted claim alive until `let_go`."""
        self.job = job
        gate = InterruptGate()
        lease = Lease(self._terms(job, grant), gate, self._open_commit)
        self.holding = Holding(lease, gate, self.options.heartbeat, asked_at)
        self.holding.granted(asked_at)
        if grant.attempt and self.options.attempt_timeout is not None:
            self.holding.times_out_at = asked_at + self.options.attempt_timeout
        self.runtime.holdings.add(self.holding)
        self.request.update(_lease_attempt=self)
        return lease

    def _terms(self, job: Job, grant: Grant) -> Terms:
        return Terms(
            grant=grant,
            task=job.task,
            key=job.key,
            tenant=job.tenant,
            max_attempts=job.max_attempts,
            checkpoint=job.checkpoint,
            monotonic=self._monotonic,
            save_checkpoint=self.runtime.store.save_checkpoint,
        )

    def _open_commit(self, grant: Grant) -> Any:
        return self.runtime.store.commit(grant, self._encoded, self.lease.remaining())

    def _encoded(self, result: object) -> str:
        text, _ = storable(self.task.name, self.task_id, result)
        return text or "null"

    def _execute(self, job: Job, body: Body) -> Any:
        lease = self.lease
        handover.use_stored_message(self, job)
        self.request.retries = lease.attempt - 1
        signals.lease_claimed.send(self.task, job=job, lease=lease)
        outcome = self._run(lease, body)
        return Reporter(self, job, lease).report(outcome)

    def _run(self, lease: Lease, body: Body) -> Outcome:
        gate, outcome = self._held.gate, None
        mark = current.set(lease)
        try:
            gate.arm()
            outcome = outcome_of(lambda: body(self.args, self.kwargs))
            gate.disarm()
        except Interrupt as late:
            # It hit between the arming and the body, or between its end and the disarming.
            outcome = outcome or Interrupted(late)
            gate.disarm()
        finally:
            current.reset(mark)
        if gate.asked is not None and not self.request.is_eager:
            # It may have hit inside a driver, whose connection is then in mid-sentence.
            self.runtime.store.interrupted()
        return outcome

    @property
    def lease(self) -> Lease:
        """The lease; only after `hold`.

        Raises:
            NoLease: Nothing is held.
        """
        return self._held.lease

    @property
    def _held(self) -> Holding:
        if self.holding is None:
            raise NoLease
        return self.holding

    @property
    def is_settled(self) -> bool:
        """Whether the claimed submission has nothing to hand over; a job tells of its own id."""
        job = self.job
        return job is not None and job.id == self.task_id and job.settled_at is not None

    def let_go(self) -> None:
        """Renew the lease no longer."""
        if self.holding is not None:
            self.runtime.holdings.drop(self.holding)
