"""The job store: the one place where it is decided who runs.

Every method is one atomic step of bounded work. Time is the store's own; a
caller passes durations in seconds, never points in time. Every write after a
claim carries the grant, and a grant whose token is no longer the job's is
refused with `StaleToken` and recorded as `stale_write_refused`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from celery_lease.job import (
    Claim,
    Counts,
    Due,
    Event,
    Expired,
    Failure,
    Job,
    NewJob,
    Renewal,
    State,
    Submitted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from celery_lease.lease import Grant

#: Seconds within which the one who was handed a message must have published it;
#: after that, another one is handed it.
PUBLISH_HOLD = 10.0


@dataclass
class Done:
    """What `lease.commit()` yields; set `result` to record it with the effect.

    Attributes:
        result: The operation's result, given to every submission of the job.
    """

    result: object = None


@dataclass(frozen=True)
class Replacement:
    """A message that takes the place of a job's own, as `retry(args=…)` asks."""

    message: str
    body: bytes
    arguments: str


class JobStore(ABC):
    """Durable jobs under fenced leases."""

    #: Whether processes of one host or of several can share it.
    shared = True

    # -- submission --------------------------------------------------------

    @abstractmethod
    def submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Record submissions, all or none.

        A submission whose operation key is known joins that job under its own
        id; one whose id is known is that submission again.

        Raises:
            OperationKeyConflict: The key's job has another fingerprint.
            JobIdConflict: The id belongs to another task.
        """

    @abstractmethod
    def after_commit(self, publish: Callable[[], None]) -> None:
        """Call `publish` once what was submitted is durable; at once if it is already."""

    @abstractmethod
    def published(self, task_ids: Sequence[str], republish_after: float, epoch: str = "") -> None:
        """Note that messages left.

        They are presumed lost after `republish_after` * 2 ** n seconds, n counted per
        submission, or when the broker's `epoch` changes. A note that comes after the
        job has moved on is out of date and changes nothing.
        """

    @abstractmethod
    def due(self, limit: int) -> list[Due]:
        """Hand out messages to publish, each to one caller for `PUBLISH_HOLD` seconds.

        Due are jobs whose publish time has come, and submissions of ended
        jobs that are not settled and on which there is no live lease.
        """

    @abstractmethod
    def next_due_in(self) -> float | None:
        """Seconds until `due` or `expire` finds something; `None` if nothing is planned."""

    @abstractmethod
    def publish_again(self, task_ids: Sequence[str], delay: float) -> None:
        """Plan the next message of these submissions for `delay` seconds from now."""

    @abstractmethod
    def broker_lost_data(self, epoch: str, limit: int) -> int:
        """Make due what was published under another epoch; how many were moved."""

    # -- holding -----------------------------------------------------------

    @abstractmethod
    def claim(self, task_id: str, *, task: str, owner: str, ttl: float) -> Claim:
        """Try to become the holder of the job that `task_id` belongs to.

        An attempt is counted here. A holder whose lease has ended is
        expired first, in the same step. A job past its `expires_at` becomes
        cancelled and is answered as `Unsettled`.
        """

    @abstractmethod
    def renew(self, grants: Sequence[Grant]) -> Renewal:
        """Extend leases to now + ttl each; an ended or taken one is lost, never revived."""

    @abstractmethod
    def succeed(
        self, grant: Grant, result: str | None, *, settled: bool = False, reason: str = ""
    ) -> Job:
        """End the job as succeeded; `reason` may be `ignored` or `replaced`.

        Raises:
            StaleToken: The job is not running under this grant.
        """

    @abstractmethod
    def fail(
        self,
        grant: Grant,
        failure: Failure,
        retry_in: float | None,
        replacement: Replacement | None = None,
    ) -> Job:
        """End the attempt: retry in `retry_in` seconds, or dead when it is `None`.

        Raises:
            StaleToken: The job is not running under this grant.
        """

    @abstractmethod
    def release(self, grant: Grant, delay: float = 0.0, reason: str = "") -> Job:
        """Hand the job back uncounted, due in `delay` seconds (deferred if above 0).

        Raises:
            StaleToken: The job is not running under this grant.
        """

    @abstractmethod
    def amend(self, grant: Grant, result: str) -> None:
        """Record the result of a job that succeeded under this grant without one.

        A result that is there stays.

        Raises:
            StaleToken: The job has not succeeded under this grant, or another holds its outcome.
        """

    @abstractmethod
    def settle(self, grant: Grant) -> bool:
        """Note that the outcome was handed to Celery for `grant.task_id`; False if refused."""

    @abstractmethod
    def save_checkpoint(self, grant: Grant, checkpoint: str) -> None:
        """Keep JSON text for the next attempt.

        Raises:
            StaleToken: The job is not running under this grant.
        """

    @abstractmethod
    def refused(self, grant: Grant, what: str) -> None:
        """Record that a stale holder's `what` was refused."""

    def commit(
        self, grant: Grant, encode: Callable[[object], str], trust: float | None = None
    ) -> AbstractContextManager[Done]:
        """One transaction of the caller's writes and the job's success.

        `trust` is how many seconds the holder may still trust its lease: a
        transaction that is silent for longer is ended by the database, if it can.

        Here without a transaction, for stores that have none: the success is
        written when the block ends, and refused for a stale holder.

        Raises:
            StaleToken: The job is not running under this grant; nothing was written.
        """
        del trust
        return self._plain_commit(grant, encode)

    @contextmanager
    def _plain_commit(self, grant: Grant, encode: Callable[[object], str]) -> Iterator[Done]:
        done = Done()
        yield done
        self.succeed(grant, None if done.result is None else encode(done.result))

    # -- sweeping and operating -------------------------------------------

    @abstractmethod
    def expire(self, limit: int) -> list[Expired]:
        """Take jobs from holders whose lease has ended; each is reported to one caller.

        A job that has ended is not reported: its outcome only becomes due again.
        """

    @abstractmethod
    def expire_owner(self, owner: str, reason: str) -> list[Expired]:
        """Take all jobs from a holder known to be dead."""

    @abstractmethod
    def cancel(self, task_id: str, by: str) -> bool:
        """Cancel a job that is not terminal; False if there is none.

        Its holder is fenced: the owner is cleared, so that settling is refused too.
        """

    @abstractmethod
    def replay(self, job_id: str, by: str) -> Job:
        """Make a dead or cancelled job pending again with all its attempts.

        Every submission is handed the new outcome, also one that was handed the old.

        Raises:
            WrongJobState: It is neither, or there is no such job.
        """

    @abstractmethod
    def prune(self, limit: int) -> int:
        """Delete up to `limit` settled jobs whose retention has ended; how many were."""

    @abstractmethod
    def register_worker(self, name: str, ttl: float) -> None:
        """Note that a worker's sweeper lives; forgotten `ttl` seconds later."""

    @abstractmethod
    def forget_worker(self, name: str) -> None:
        """Note that a worker has stopped."""

    # -- reading -----------------------------------------------------------

    @abstractmethod
    def workers(self) -> list[str]:
        """Names of live workers, sorted."""

    @abstractmethod
    def get(self, task_id: str) -> Job | None:
        """The job that a submission id belongs to."""

    @abstractmethod
    def counts(self) -> Counts:
        """Numbers of jobs by state, live leases, due work."""

    @abstractmethod
    def events(self, job_id: str, limit: int = 1000) -> list[Event]:
        """The job's record, oldest first."""

    def interrupted(self) -> None:
        """Start anew on this thread: an interrupt may have hit inside a call to the store.

        Whatever the thread's connection was doing is given up.
        """
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Give back what the calling thread holds open."""


#: Republishing waits are doubled no more often.
MOST_DOUBLINGS = 10


def backoff_of_publishing(republish_after: float, count: int) -> float:
    """Seconds until the (count+1)th message of a job is presumed lost."""
    return float(republish_after * 2 ** min(count, MOST_DOUBLINGS))


__all__ = ["PUBLISH_HOLD", "Done", "JobStore", "Replacement", "State"]
