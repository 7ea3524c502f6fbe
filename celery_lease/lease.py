"""What a holder holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from celery_lease.errors import Deferred, Interrupt, LeaseLost, StaleToken


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease as the store gave it: the proof every later write carries.

    Attributes:
        job_id: The job.
        token: Fencing token of this attempt, larger than every earlier one of the job.
        owner: `host:parent-pid:random:n`.
        ttl: Seconds the lease lasts from each grant or renewal.
        attempt: Number of this attempt, from 1; 0 when only an outcome is handed out.
        task_id: The submission whose message led here; settling belongs to it.
    """

    job_id: str
    token: int
    owner: str
    ttl: float
    attempt: int
    task_id: str


class Done(Protocol):
    """What `Lease.commit` yields; its `result` is recorded with the effect."""

    result: object


class Gate(Protocol):
    """Lets interrupts into a body, or holds them back."""

    @property
    def asked(self) -> type[Interrupt] | None:
        """The interrupt that was asked for, delivered or not."""

    def close(self) -> None:
        """Hold interrupts back; may be nested."""

    def open(self, *, told: bool = False) -> None:
        """End the innermost `close`; raises what was held back, unless `told` already."""


CommitOpener = Callable[[Grant], AbstractContextManager[Done]]


@dataclass(frozen=True)
class Terms:
    """What a lease was granted for."""

    grant: Grant
    task: str
    key: str | None
    tenant: str
    max_attempts: int
    checkpoint: str | None
    monotonic: Callable[[], float]
    save_checkpoint: Callable[[Grant, str], None]


class Lease:
    """The lease of the running attempt, as a task body sees it (`self.lease`).

    Attributes:
        key: Operation key of the job, `None` without one.
        tenant: Tenant of the job, empty without one.
        attempt: Number of this attempt, from 1.
        max_attempts: How many there can be.
        idempotency_key: Stable for the job, for receivers that know keys.
    """

    def __init__(self, terms: Terms, gate: Gate, opener: CommitOpener) -> None:
        self.grant = terms.grant
        self.key = terms.key
        self.tenant = terms.tenant
        self.attempt = terms.grant.attempt
        self.max_attempts = terms.max_attempts
        self.idempotency_key = f"{terms.task}:{terms.key}" if terms.key else terms.grant.job_id
        self._gate = gate
        self._open_commit = opener
        self._monotonic = terms.monotonic
        self._trusted_until = 0.0
        self._checkpoint = terms.checkpoint
        self._save_checkpoint = terms.save_checkpoint
        #: Set once `commit()` has ended the job; what it recorded.
        self.committed: object | None = None

    def __repr__(self) -> str:
        """Job, token and remaining seconds."""
        return f"<Lease {self.grant.job_id} token={self.token} {self.remaining():.1f}s left>"

    @property
    def token(self) -> int:
        """The fencing token: send it with every write that can check it."""
        return self.grant.token

    @property
    def owner(self) -> str:
        """Who holds it."""
        return self.grant.owner

    @property
    def trusted_until(self) -> float:
        """Point on this process's monotonic clock before which nobody else holds the job."""
        return self._trusted_until

    def trust(self, until: float) -> None:
        """Move `trusted_until`, after a grant or a renewal."""
        self._trusted_until = until

    def remaining(self) -> float:
        """Seconds of trust left, 0.0 when there are none."""
        return max(0.0, self._trusted_until - self._monotonic())

    @property
    def lost(self) -> bool:
        """Whether another holder may run the job by now."""
        return self._gate.asked is LeaseLost or self.remaining() <= 0

    def check(self) -> None:
        """Raise if the attempt has to end.

        Raises:
            LeaseLost: The lease ended or was taken away.
            AttemptTimedOut: `lease_attempt_timeout` has passed.
            WorkerStopping: The worker is shutting down.
        """
        if self._gate.asked is not None:
            raise self._gate.asked
        if self.remaining() <= 0:
            raise LeaseLost

    def defer(self, seconds: float, reason: str = "") -> NoReturn:
        """Hand the job back until `seconds` from now, uncounted; does not return."""
        raise Deferred(seconds, reason)

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Hold interrupts back until the block ends."""
        self._gate.close()
        told = False
        try:
            yield
        except StaleToken:
            # Says more than a held back `LeaseLost`, and must not be hidden by it.
            told = True
            raise
        finally:
            self._gate.open(told=told)

    @contextmanager
    def commit(self) -> Iterator[Done]:
        """One transaction of your writes in the store's database and the job's success.

        The transition is the last statement, under the token. Set `result` on
        what is yielded to record the operation's result with it.

        Raises:
            StaleToken: Another holder has the job; everything is rolled back.
        """
        self.check()
        with self.shield():
            with self._open_commit(self.grant) as done:
                yield done
            self.committed = done

    @property
    def checkpoint(self) -> Any:
        """What an earlier attempt saved, `None` at first."""
        return None if self._checkpoint is None else json.loads(self._checkpoint)

    @checkpoint.setter
    def checkpoint(self, value: Any) -> None:
        text = json.dumps(value)
        self._save_checkpoint(self.grant, text)
        self._checkpoint = text

    def headers(self) -> dict[str, str]:
        """HTTP headers for a receiver: `Idempotency-Key` and `Fencing-Token`."""
        return {"Idempotency-Key": self.idempotency_key, "Fencing-Token": str(self.token)}
