"""Short ways to bring a store into a position, and to look at it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

from celery_lease.job import Claim, Claimed, Event, Failure, Job, Kind, NewJob, Submitted, Unsettled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from celery_lease.lease import Grant
    from celery_lease.stores.base import JobStore

TASK = "contract.task"
OWNER = "host:1:aaaa:1"
OTHER = "host:2:bbbb:1"
#: Seconds; long beside the pauses of a loaded machine, since a server's time moves by itself.
TTL = 60.0
PAST_TTL = TTL + 1.0
#: Seconds by which two times may differ that would be equal on a clock that stands still.
TOLERANCE = 5.0
FAILURE = Failure("ValueError", "no such thing: «ä»", "NO_SUCH_THING", traceback="line 1\nline 2")

T = TypeVar("T")


class Elapse(Protocol):
    """Lets time pass for the store under test."""

    def __call__(self, seconds: float, /) -> None:
        """Let `seconds` pass."""


def new(task_id: str = "a", key: str | None = None) -> NewJob:
    """A submission; `dataclasses.replace` makes the less common ones."""
    return NewJob(
        id=task_id,
        task=TASK,
        message=f'{{"of": "{task_id}"}}',
        body=b"\x00\xff" + task_id.encode(),
        fingerprint="same arguments",
        key=key,
    )


def submit(store: JobStore, job: NewJob | None = None) -> Submitted:
    """Submit one job."""
    return store.submit([job or new()])[0]


def claim(store: JobStore, task_id: str = "a", owner: str = OWNER) -> Claim:
    """Claim for `TTL` seconds."""
    return store.claim(task_id, task=TASK, owner=owner, ttl=TTL)


def hold(store: JobStore, task_id: str = "a", owner: str = OWNER) -> Grant:
    """Claim what must be there to run."""
    answer = claim(store, task_id, owner)
    assert isinstance(answer, Claimed)
    return answer.grant


def hold_new(store: JobStore, job: NewJob | None = None, owner: str = OWNER) -> Grant:
    """Submit and claim."""
    return hold(store, submit(store, job).task_id, owner)


def hold_outcome(store: JobStore, task_id: str = "a", owner: str = OTHER) -> Grant:
    """Claim what must have ended and not be settled."""
    answer = claim(store, task_id, owner)
    assert isinstance(answer, Unsettled)
    return answer.grant


def bury(store: JobStore, job: NewJob | None = None) -> Grant:
    """Submit, claim and fail for good; not settled."""
    grant = hold_new(store, job)
    store.fail(grant, FAILURE, retry_in=None)
    return grant


def finish(store: JobStore, job: NewJob | None = None) -> Grant:
    """Submit, claim, succeed and settle."""
    grant = hold_new(store, job)
    store.succeed(grant, "1")
    assert store.settle(grant)
    return grant


def get(store: JobStore, task_id: str = "a") -> Job:
    """The job that must exist."""
    job = store.get(task_id)
    assert job is not None
    return job


def due_ids(store: JobStore, limit: int = 100) -> set[str]:
    """Hand out what is due."""
    handed_out = [due.task_id for due in store.due(limit)]
    assert len(handed_out) == len(set(handed_out))
    return set(handed_out)


def kinds(store: JobStore, job_id: str = "a") -> list[Kind]:
    """The kinds of a job's events, oldest first."""
    return [event.kind for event in store.events(job_id)]


def events_of(store: JobStore, kind: Kind, job_id: str = "a") -> list[Event]:
    """A job's events of one kind, oldest first."""
    return [event for event in store.events(job_id) if event.kind is kind]


def near(one: float | None, other: float | None) -> bool:
    """Whether two times are equal but for the time that passed by itself."""
    assert one is not None
    assert other is not None
    return abs(one - other) <= TOLERANCE


def at_once(store: JobStore, calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run calls in as many threads, started together; their answers in order."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        start.wait()
        try:
            return call()
        finally:
            store.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))
