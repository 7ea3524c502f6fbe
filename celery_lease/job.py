"""The job: its states, its record, its events, and what a claim can answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from celery_lease.lease import Grant


class State(StrEnum):
    """Where a job stands."""

    PENDING = "pending"
    RUNNING = "running"
    RETRY_WAIT = "retry_wait"
    WAITING = "waiting"
    NEEDS_REVIEW = "needs_review"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


#: The one table of allowed transitions; stores and screens ask it.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.PENDING: frozenset({State.RUNNING, State.WAITING, State.DEAD, State.CANCELLED}),
    State.RETRY_WAIT: frozenset({State.RUNNING, State.WAITING, State.DEAD, State.CANCELLED}),
    State.WAITING: frozenset({State.PENDING, State.DEAD, State.CANCELLED}),
    State.RUNNING: frozenset(
        {
            State.SUCCEEDED,
            State.RETRY_WAIT,
            State.PENDING,
            State.DEAD,
            State.CANCELLED,
            State.NEEDS_REVIEW,
        }
    ),
    State.NEEDS_REVIEW: frozenset({State.PENDING, State.SUCCEEDED, State.DEAD}),
    State.DEAD: frozenset({State.PENDING, State.SUCCEEDED}),
    State.CANCELLED: frozenset({State.PENDING, State.SUCCEEDED}),
    State.SUCCEEDED: frozenset(),
}

TERMINAL = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED})
#: States from which a claim can start an attempt.
CLAIMABLE = frozenset({State.PENDING, State.RETRY_WAIT, State.WAITING})


class Kind(StrEnum):
    """What an event records; one event per state change, in the same atomic step."""

    CREATED = "created"
    CLAIMED = "claimed"
    RELEASED = "released"
    DEFERRED = "deferred"
    LEASE_EXPIRED = "lease_expired"
    FORCE_EXPIRED = "force_expired"
    RETRY_SCHEDULED = "retry_scheduled"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    NEEDS_REVIEW = "needs_review"
    REVIEWED = "reviewed"
    REPLACED = "replaced"
    REPLAYED = "replayed"
    SETTLED = "settled"
    HANDOVER_FAILED = "handover_failed"
    EFFECT_PRESENT = "effect_present"
    STALE_WRITE_REFUSED = "stale_write_refused"
    DUPLICATE_SUBMITTED = "duplicate_submitted"
    LEASE_RENEWED = "lease_renewed"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, as text; nothing is pickled.

    Attributes:
        name: Class name of the exception.
        message: Its text.
        code: Stable name of the reason.
        retryable: Whether the policy saw a reason to try again.
        traceback: Formatted traceback, may be empty.
    """

    name: str
    message: str
    code: str
    retryable: bool = True
    traceback: str = ""

    def dumps(self) -> str:
        """The failure as JSON text."""
        return json.dumps(
            {
                "name": self.name,
                "message": self.message,
                "code": self.code,
                "retryable": self.retryable,
                "traceback": self.traceback,
            }
        )

    @classmethod
    def loads(cls, text: str) -> Failure:
        """Read what `dumps` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class NewJob:
    """One submission, as `JobStore.submit` takes it.

    Attributes:
        id: Submission id; also the job's id when it is the first.
        task: Celery task name.
        message: Headers, properties and routing as JSON text (see `message.py`).
        body: Message body as published.
        fingerprint: Digest of the arguments, compared for submissions under one key.
        key: Operation key, unique per task; `None` for none.
        delay: Seconds from the store's now until the job is due.
        expires_in: Seconds from the store's now after which it must not start.
        retention: Seconds a finished job is kept.
        key_retention: Seconds id and result of a keyed job are kept after its end.
        on_dead: `keep` or `replay`, for a submission that meets a dead or cancelled job.
        hands_over: False when nobody waits for the outcome (no result, no followers).
        audit: `transitions`, `all` or `off`.
    """

    id: str
    task: str
    message: str
    body: bytes
    fingerprint: str
    queue: str = ""
    key: str | None = None
    tenant: str = ""
    arguments: str = ""
    max_attempts: int = 6
    delay: float = 0.0
    expires_in: float | None = None
    retention: float = 7 * 86400.0
    key_retention: float = 30 * 86400.0
    on_dead: str = "keep"
    hands_over: bool = True
    audit: str = "transitions"

    @property
    def kept_for(self) -> float:
        """Seconds the row is kept after its end."""
        return max(self.retention, self.key_retention) if self.key else self.retention


@dataclass(frozen=True, slots=True)
class Job:
    """A job as a store reports it; times are seconds since the epoch of the store's clock.

    Attributes:
        attempts: Counted claims so far; a hand-back takes its claim back.
        token: The last fencing token handed out; only grows.
        owner: Holder of the current or last lease; empty once it was handed back or taken away.
        available_at: Not started before.
        expires_at: Not started after; `None` for never.
        lease_until: Expiry of the live lease, `None` without one.
        settled_at: When the outcome was handed to Celery for the job's own id.
        result: JSON text, `None` until recorded.
    """

    id: str
    task: str
    state: State
    message: str
    body: bytes
    fingerprint: str
    queue: str
    key: str | None
    tenant: str
    arguments: str
    max_attempts: int
    hands_over: bool
    audit: str
    available_at: float
    expires_at: float | None
    created_at: float
    updated_at: float
    attempts: int = 0
    token: int = 0
    owner: str = ""
    lease_until: float | None = None
    next_publish_at: float | None = None
    publish_count: int = 0
    result: str | None = None
    failure: Failure | None = None
    checkpoint: str | None = None
    started_at: float | None = None
    completed_at: float | None = None
    settled_at: float | None = None
    settle_attempts: int = 0

    @classmethod
    def of(cls, new: NewJob, now: float) -> Job:
        """The job a submission makes at that time."""
        shared = {name: getattr(new, name) for name in _KEPT_AS_SUBMITTED}
        return cls(
            state=State.PENDING,
            available_at=now + new.delay,
            expires_at=None if new.expires_in is None else now + new.expires_in,
            created_at=now,
            updated_at=now,
            **shared,
        )

    @property
    def terminal(self) -> bool:
        """Whether the job has ended."""
        return self.state in TERMINAL


_KEPT_AS_SUBMITTED = (
    "id",
    "task",
    "message",
    "body",
    "fingerprint",
    "queue",
    "key",
    "tenant",
    "arguments",
    "max_attempts",
    "hands_over",
    "audit",
)


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a job's record."""

    job_id: str
    kind: Kind
    at: float
    token: int = 0
    owner: str = ""
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of one submission.

    Attributes:
        task_id: The submission's own id.
        job: The job it made or joined.
        created: Whether it made the job.
        due_now: Whether the caller should publish a message for `task_id` now.
    """

    task_id: str
    job: Job
    created: bool
    due_now: bool


@dataclass(frozen=True, slots=True)
class Due:
    """One message to publish."""

    task_id: str
    message: str
    body: bytes
    attempts: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """The caller holds the job and must run it."""

    job: Job
    grant: Grant


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The job has ended; the caller holds it to hand its outcome out once more.

    Attributes:
        message: Of the submission that was claimed, with its own followers.
    """

    job: Job
    grant: Grant
    message: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Finished:
    """The job has ended and this submission was settled: touch nothing."""

    job: Job


@dataclass(frozen=True, slots=True)
class Busy:
    """Somebody holds the job, until `until` unless renewed (`None`: not known)."""

    until: float | None = None


@dataclass(frozen=True, slots=True)
class NotDue:
    """The job must not start before `at`."""

    at: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """The job waits for a slot of its concurrency limit."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The store has no such job."""


@dataclass(frozen=True, slots=True)
class OtherTask:
    """The id belongs to a job of another task."""

    task: str


Claim = Claimed | Unsettled | Finished | Busy | NotDue | Waiting | Gone | OtherTask


@dataclass(frozen=True, slots=True)
class Renewal:
    """Answer to a renewal.

    Attributes:
        lost: Grants that were not renewed; they never revive.
        asks: Job id to what an operator asks of its holder (`cancel`).
    """

    lost: frozenset[Grant] = frozenset()
    asks: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Expired:
    """A job that was taken from its holder."""

    job_id: str
    task: str
    token: int
    owner: str
    state: State
    age: float


@dataclass(frozen=True, slots=True)
class Counts:
    """What a health page shows.

    Attributes:
        active_leases: Running jobs whose lease has not ended.
        oldest_pending: Seconds since the longest waiting job became due, `None` with none.
    """

    by_state: dict[State, int]
    active_leases: int
    due: int
    oldest_pending: float | None
