"""The reference store: plain dictionaries under one mutex, no thread.

It is the specification the other stores are held to, and serves tests that
need no server. One file, long as it is: it is read beside `base.py`, verb by verb.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from celery_lease.clock import Clock, SystemClock, next_token
from celery_lease.errors import JobIdConflict, OperationKeyConflict, StaleToken, WrongJobState
from celery_lease.job import (
    CLAIMABLE,
    Busy,
    Claim,
    Claimed,
    Counts,
    Due,
    Event,
    Expired,
    Failure,
    Finished,
    Gone,
    Job,
    Kind,
    NewJob,
    NotDue,
    OtherTask,
    Renewal,
    State,
    Submitted,
    Unsettled,
)
from celery_lease.lease import Grant
from celery_lease.stores.base import PUBLISH_HOLD, JobStore, Replacement, backoff_of_publishing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


@dataclass
class _Handover:
    """Hand-over and publishing state of one submission id."""

    job_id: str
    message: str
    body: bytes
    hands_over: bool
    next_publish_at: float | None
    publish_count: int = 0
    epoch: str = ""
    settled_at: float | None = None
    settle_attempts: int = 0
    handed_out: bool = False

    def plan(self, at: float | None) -> None:
        """Publish at that time; whoever was told to publish before is out of date."""
        self.next_publish_at = at
        self.handed_out = False

    def hand_out(self, now: float) -> None:
        """Somebody is told to publish, and has so long for it."""
        self.next_publish_at = now + PUBLISH_HOLD
        self.handed_out = True


@dataclass
class _Lease:
    token: int
    owner: str
    expires_at: float


@dataclass
class _Kept:
    """A job with what the public record leaves out."""

    job: Job
    kept_for: float
    keep_until: float
    events: list[Event] = field(default_factory=list)


class MemoryStore(JobStore):
    """Jobs in this process's memory.

    Args:
        clock: Where the store's time comes from.
    """

    shared = False

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self._mutex = threading.RLock()
        self._jobs: dict[str, _Kept] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._handovers: dict[str, _Handover] = {}
        self._leases: dict[str, _Lease] = {}
        self._workers: dict[str, float] = {}

    # -- submission --------------------------------------------------------

    def submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        with self._mutex:
            self._refuse_conflicts(jobs)
            return [self._submit(new) for new in jobs]

    def _refuse_conflicts(self, jobs: Sequence[NewJob]) -> None:
        """Before anything is written, against what is kept and what the batch itself brings."""
        tasks: dict[str, str] = {}
        fingerprints: dict[tuple[str, str], str] = {}
        for new in jobs:
            known = new.id in self._handovers or new.id in tasks
            task = self._task_of(new.id) or tasks.setdefault(new.id, new.task)
            if task != new.task:
                raise JobIdConflict(f"task id {new.id} belongs to a job of {task}")
            if new.key and not known:
                first = self._fingerprint_of(new.task, new.key) or fingerprints.setdefault(
                    (new.task, new.key), new.fingerprint
                )
                if first != new.fingerprint:
                    raise OperationKeyConflict(f"{new.task} {new.key!r} has other arguments")

    def _task_of(self, task_id: str) -> str | None:
        handover = self._handovers.get(task_id)
        return self._jobs[handover.job_id].job.task if handover else None

    def _fingerprint_of(self, task: str, key: str) -> str | None:
        job_id = self._keys.get((task, key))
        return self._jobs[job_id].job.fingerprint if job_id else None

    def _submit(self, new: NewJob) -> Submitted:
        if known := self._handovers.get(new.id):
            return Submitted(new.id, self._job(known.job_id), created=False, due_now=False)
        if new.key and (job_id := self._keys.get((new.task, new.key))):
            return self._join(new, job_id)
        return self._create(new)

    def _create(self, new: NewJob) -> Submitted:
        now = self.clock.wall()
        job = Job.of(new, now)
        self._jobs[new.id] = _Kept(job, new.kept_for, job.available_at + new.kept_for)
        self._handovers[new.id] = _Handover(
            new.id, new.message, new.body, new.hands_over, job.available_at
        )
        if new.delay <= 0:
            self._handovers[new.id].hand_out(now)
        if new.key:
            self._keys[new.task, new.key] = new.id
        self._record(new.id, Kind.CREATED)
        return Submitted(new.id, self._job(new.id), created=True, due_now=new.delay <= 0)

    def _join(self, new: NewJob, job_id: str) -> Submitted:
        now = self.clock.wall()
        self._handovers[new.id] = _Handover(job_id, new.message, new.body, new.hands_over, now)
        if not new.hands_over:
            self._handovers[new.id].settled_at = now
        self._record(job_id, Kind.DUPLICATE_SUBMITTED, task_id=new.id)
        state = self._jobs[job_id].job.state
        if new.on_dead == "replay" and state in (State.DEAD, State.CANCELLED):
            self.replay(job_id, by=f"submission {new.id}")
        job = self._job(job_id)
        due_now = job.terminal and new.hands_over
        if due_now:
            self._handovers[new.id].hand_out(now)
        return Submitted(new.id, job, created=False, due_now=due_now)

    def after_commit(self, publish: Callable[[], None]) -> None:
        publish()

    def published(self, task_ids: Sequence[str], republish_after: float, epoch: str = "") -> None:
        with self._mutex:
            now = self.clock.wall()
            for task_id in task_ids:
                handover = self._handovers.get(task_id)
                if handover and handover.handed_out:
                    wait = backoff_of_publishing(republish_after, handover.publish_count)
                    handover.next_publish_at = now + wait
                    handover.publish_count += 1
                    handover.epoch = epoch

    def due(self, limit: int) -> list[Due]:
        with self._mutex:
            now = self.clock.wall()
            ready = [i for i in self._by_publish_time() if self._wants_publish(i, now)][:limit]
            return [self._hand_out(task_id, now) for task_id in ready]

    def _by_publish_time(self) -> Iterable[str]:
        planned = (i for i, h in self._handovers.items() if h.next_publish_at is not None)
        return sorted(planned, key=lambda i: self._handovers[i].next_publish_at or 0.0)

    def _wants_publish(self, task_id: str, now: float) -> bool:
        handover = self._handovers[task_id]
        if handover.next_publish_at is None or handover.next_publish_at > now:
            return False
        job = self._jobs[handover.job_id].job
        if job.terminal:
            lease = self._leases.get(job.id)
            return handover.settled_at is None and not (lease and lease.expires_at > now)
        return task_id == job.id and job.state in (State.PENDING, State.RETRY_WAIT)

    def _hand_out(self, task_id: str, now: float) -> Due:
        handover = self._handovers[task_id]
        handover.hand_out(now)
        job = self._jobs[handover.job_id].job
        return Due(task_id, handover.message, handover.body, job.attempts)

    def next_due_in(self) -> float | None:
        with self._mutex:
            now = self.clock.wall()
            times = [lease.expires_at for lease in self._leases.values()]
            times += [
                handover.next_publish_at
                for task_id, handover in self._handovers.items()
                if handover.next_publish_at is not None
                and self._wants_publish(task_id, handover.next_publish_at)
            ]
            return max(0.0, min(times) - now) if times else None

    def publish_again(self, task_ids: Sequence[str], delay: float) -> None:
        with self._mutex:
            for task_id in task_ids:
                if handover := self._handovers.get(task_id):
                    handover.plan(self.clock.wall() + delay)

    def broker_lost_data(self, epoch: str, limit: int) -> int:
        with self._mutex:
            lost = [
                handover
                for handover in self._handovers.values()
                if handover.next_publish_at is not None and handover.epoch not in ("", epoch)
            ][:limit]
            for handover in lost:
                handover.next_publish_at = self.clock.wall()
                handover.epoch = ""
            return len(lost)

    # -- holding -----------------------------------------------------------

    def claim(self, task_id: str, *, task: str, owner: str, ttl: float) -> Claim:
        with self._mutex:
            handover = self._handovers.get(task_id)
            if handover is None:
                return Gone()
            job_id, now = handover.job_id, self.clock.wall()
            if self._jobs[job_id].job.task != task:
                return OtherTask(self._jobs[job_id].job.task)
            lease = self._leases.get(job_id)
            if lease and lease.expires_at > now:
                return self._held(handover, lease)
            if lease:
                self._expire(job_id, Kind.LEASE_EXPIRED)
            self._cancel_expired(job_id, now)
            return self._claim_free(task_id, owner, ttl)

    def _held(self, handover: _Handover, lease: _Lease) -> Claim:
        job = self._job(handover.job_id)
        if job.terminal and handover.settled_at is not None:
            return Finished(job)
        if job.terminal:
            # Its sibling is being handed over; nothing else would publish this one.
            handover.plan(lease.expires_at)
        return Busy(lease.expires_at)

    def _cancel_expired(self, job_id: str, now: float) -> None:
        job = self._jobs[job_id].job
        if job.state in CLAIMABLE and job.expires_at is not None and job.expires_at <= now:
            self._end(job_id, State.CANCELLED, Kind.CANCELLED, reason="expired")

    def _claim_free(self, task_id: str, owner: str, ttl: float) -> Claim:
        handover = self._handovers[task_id]
        job, now = self._job(handover.job_id), self.clock.wall()
        if job.terminal:
            return self._claim_outcome(task_id, owner, ttl)
        if job.available_at > now:
            self._handovers[job.id].plan(job.available_at)
            return NotDue(job.available_at)
        return self._claim_attempt(task_id, job, owner, ttl)

    def _claim_attempt(self, task_id: str, job: Job, owner: str, ttl: float) -> Claimed:
        now = self.clock.wall()
        token = next_token(job.token, now)
        self._leases[job.id] = _Lease(token, owner, now + ttl)
        self._handovers[job.id].plan(None)
        self._set(
            job.id,
            state=State.RUNNING,
            token=token,
            owner=owner,
            attempts=job.attempts + 1,
            started_at=now,
        )
        self._record(job.id, Kind.CLAIMED, attempt=job.attempts + 1)
        grant = Grant(job.id, token, owner, ttl, job.attempts + 1, task_id)
        return Claimed(self._job(job.id), grant)

    def _claim_outcome(self, task_id: str, owner: str, ttl: float) -> Finished | Unsettled:
        handover, now = self._handovers[task_id], self.clock.wall()
        job = self._job(handover.job_id)
        if handover.settled_at is None and handover.settle_attempts >= job.max_attempts:
            self._settle(task_id, Kind.HANDOVER_FAILED)
        if handover.settled_at is not None:
            return Finished(self._job(job.id))
        token = next_token(job.token, now)
        self._leases[job.id] = _Lease(token, owner, now + ttl)
        handover.settle_attempts += 1
        handover.plan(now + ttl)
        self._set(job.id, token=token, owner=owner)
        grant = Grant(job.id, token, owner, ttl, 0, task_id)
        return Unsettled(self._job(job.id), grant, handover.message, handover.body)

    def renew(self, grants: Sequence[Grant]) -> Renewal:
        with self._mutex:
            now = self.clock.wall()
            lost = []
            for grant in grants:
                lease = self._leases.get(grant.job_id)
                if lease and self._owns(lease, grant) and lease.expires_at > now:
                    lease.expires_at = now + grant.ttl
                    if self._jobs[grant.job_id].job.audit == "all":
                        self._record(grant.job_id, Kind.LEASE_RENEWED)
                else:
                    lost.append(grant)
            return Renewal(frozenset(lost))

    def succeed(
        self, grant: Grant, result: str | None, *, settled: bool = False, reason: str = ""
    ) -> Job:
        with self._mutex:
            self._check(grant, "succeed")
            self._set(grant.job_id, result=result, failure=None)
            kind = Kind.REPLACED if reason == "replaced" else Kind.SUCCEEDED
            details = {"reason": reason} if reason else {}
            self._end(grant.job_id, State.SUCCEEDED, kind, **details)
            if settled:
                self._settle(grant.task_id, Kind.SETTLED)
            self._let_go_when_settled(grant)
            return self._job(grant.job_id)

    def fail(
        self,
        grant: Grant,
        failure: Failure,
        retry_in: float | None,
        replacement: Replacement | None = None,
    ) -> Job:
        with self._mutex:
            self._check(grant, "fail")
            self._set(grant.job_id, failure=failure)
            if replacement:
                self._replace_message(grant.job_id, replacement)
            if retry_in is None:
                self._end(grant.job_id, State.DEAD, Kind.DEAD, code=failure.code)
                self._let_go_when_settled(grant)
            else:
                self._hand_back(
                    grant.job_id,
                    State.RETRY_WAIT,
                    retry_in,
                    Kind.RETRY_SCHEDULED,
                    code=failure.code,
                    seconds=retry_in,
                )
            return self._job(grant.job_id)

    def _replace_message(self, job_id: str, replacement: Replacement) -> None:
        self._set(
            job_id,
            message=replacement.message,
            body=replacement.body,
            arguments=replacement.arguments,
        )
        handover = self._handovers[job_id]
        handover.message, handover.body = replacement.message, replacement.body

    def release(self, grant: Grant, delay: float = 0.0, reason: str = "") -> Job:
        with self._mutex:
            job = self._check(grant, "release")
            self._set(grant.job_id, attempts=job.attempts - 1)
            kind = Kind.DEFERRED if delay > 0 else Kind.RELEASED
            self._hand_back(grant.job_id, State.PENDING, delay, kind, reason=reason, seconds=delay)
            return self._job(grant.job_id)

    def amend(self, grant: Grant, result: str) -> None:
        with self._mutex:
            job = self._check(grant, "amend", State.SUCCEEDED)
            if job.result is None:
                self._set(grant.job_id, result=result)

    def settle(self, grant: Grant) -> bool:
        with self._mutex:
            kept = self._jobs.get(grant.job_id)
            if kept is None or not kept.job.terminal or not self._owns(kept.job, grant):
                self.refused(grant, "settle")
                return False
            self._settle(grant.task_id, Kind.SETTLED)
            self._let_go_when_settled(grant)
            return True

    def save_checkpoint(self, grant: Grant, checkpoint: str) -> None:
        with self._mutex:
            self._check(grant, "checkpoint")
            self._set(grant.job_id, checkpoint=checkpoint)

    def refused(self, grant: Grant, what: str) -> None:
        with self._mutex:
            if kept := self._jobs.get(grant.job_id):
                details = {"what": what, "current": str(kept.job.token)}
                event = Event(
                    grant.job_id,
                    Kind.STALE_WRITE_REFUSED,
                    self.clock.wall(),
                    grant.token,
                    grant.owner,
                    details,
                )
                kept.events.append(event)

    # -- sweeping and operating -------------------------------------------

    def expire(self, limit: int) -> list[Expired]:
        with self._mutex:
            now = self.clock.wall()
            ended = sorted(
                (lease.expires_at, job_id)
                for job_id, lease in self._leases.items()
                if lease.expires_at <= now
            )
            return self._expire_all([job_id for _, job_id in ended[:limit]], Kind.LEASE_EXPIRED, "")

    def expire_owner(self, owner: str, reason: str) -> list[Expired]:
        with self._mutex:
            held = [job_id for job_id, lease in self._leases.items() if lease.owner == owner]
            return self._expire_all(held, Kind.FORCE_EXPIRED, reason)

    def _expire_all(self, job_ids: Iterable[str], kind: Kind, reason: str) -> list[Expired]:
        taken = [self._expire(job_id, kind, reason) for job_id in job_ids]
        return [expired for expired in taken if expired]

    def _expire(self, job_id: str, kind: Kind, reason: str = "") -> Expired | None:
        lease, job, now = self._leases.pop(job_id), self._job(job_id), self.clock.wall()
        if job.terminal:
            self._wake_unsettled(job_id)
        if job.state is not State.RUNNING or job.token != lease.token:
            return None
        details = {"reason": reason} if reason else {}
        self._record(job_id, kind, **details)
        if job.attempts >= job.max_attempts:
            self._set(job_id, failure=lost_holder(job.attempts, reason))
            self._end(job_id, State.DEAD, Kind.DEAD, code="HOLDER_LOST")
            self._set(job_id, owner="")
        else:
            self._back_to_pending(job_id, now)
        age = now - (job.started_at or now)
        state = self._job(job_id).state
        return Expired(job_id, job.task, lease.token, lease.owner, state, age)

    def _back_to_pending(self, job_id: str, now: float) -> None:
        self._set(job_id, state=State.PENDING, owner="", available_at=now)
        self._handovers[job_id].plan(now)

    def cancel(self, task_id: str, by: str) -> bool:
        with self._mutex:
            handover = self._handovers.get(task_id)
            if handover is None or self._jobs[handover.job_id].job.terminal:
                return False
            self._leases.pop(handover.job_id, None)
            self._end(handover.job_id, State.CANCELLED, Kind.CANCELLED, by=by)
            self._set(handover.job_id, owner="")
            self._wake_unsettled(handover.job_id)
            return True

    def replay(self, job_id: str, by: str) -> Job:
        with self._mutex:
            kept = self._jobs.get(job_id)
            state = kept.job.state if kept else "unknown"
            if state not in (State.DEAD, State.CANCELLED):
                raise WrongJobState(f"job {job_id} is {state}; only dead or cancelled replay")
            now = self.clock.wall()
            self._leases.pop(job_id, None)
            self._set(
                job_id,
                state=State.PENDING,
                attempts=0,
                owner="",
                available_at=now,
                expires_at=None,
                completed_at=None,
            )
            self._reopen(job_id, now)
            self._record(job_id, Kind.REPLAYED, by=by)
            return self._job(job_id)

    def _reopen(self, job_id: str, now: float) -> None:
        """Whoever was handed the old outcome is handed the new one too."""
        for task_id, handover in self._handovers.items():
            if task_id == job_id or (handover.job_id == job_id and handover.hands_over):
                handover.settled_at, handover.settle_attempts = None, 0
                handover.plan(now)

    def prune(self, limit: int) -> int:
        with self._mutex:
            now = self.clock.wall()
            old = [i for i, kept in self._jobs.items() if self._prunable(i, kept, now)][:limit]
            for job_id in old:
                self._delete(job_id)
            return len(old)

    def _prunable(self, job_id: str, kept: _Kept, now: float) -> bool:
        unsettled = any(
            h.settled_at is None for h in self._handovers.values() if h.job_id == job_id
        )
        return kept.job.terminal and kept.keep_until <= now and not unsettled

    def _delete(self, job_id: str) -> None:
        job = self._jobs.pop(job_id).job
        self._keys.pop((job.task, job.key or ""), None)
        self._leases.pop(job_id, None)
        for task_id in [i for i, h in self._handovers.items() if h.job_id == job_id]:
            del self._handovers[task_id]

    def register_worker(self, name: str, ttl: float) -> None:
        with self._mutex:
            self._workers[name] = self.clock.wall() + ttl

    def forget_worker(self, name: str) -> None:
        with self._mutex:
            self._workers.pop(name, None)

    # -- reading -----------------------------------------------------------

    def workers(self) -> list[str]:
        with self._mutex:
            now = self.clock.wall()
            return sorted(name for name, until in self._workers.items() if until > now)

    def get(self, task_id: str) -> Job | None:
        with self._mutex:
            handover = self._handovers.get(task_id)
            return self._job(handover.job_id) if handover else None

    def counts(self) -> Counts:
        with self._mutex:
            now = self.clock.wall()
            jobs = [kept.job for kept in self._jobs.values()]
            due = [j for j in jobs if j.state in CLAIMABLE and j.available_at <= now]
            return Counts(
                by_state=dict(Counter(job.state for job in jobs)),
                active_leases=sum(
                    lease.expires_at > now
                    for job_id, lease in self._leases.items()
                    if self._jobs[job_id].job.state is State.RUNNING
                ),
                due=len(due),
                oldest_pending=max((now - j.available_at for j in due), default=None),
            )

    def events(self, job_id: str, limit: int = 1000) -> list[Event]:
        with self._mutex:
            kept = self._jobs.get(job_id)
            return list(kept.events[:limit]) if kept else []

    def close(self) -> None:
        """Nothing is open."""

    # -- shared steps ------------------------------------------------------

    def _job(self, job_id: str) -> Job:
        handover, lease = self._handovers[job_id], self._leases.get(job_id)
        return replace(
            self._jobs[job_id].job,
            next_publish_at=handover.next_publish_at,
            publish_count=handover.publish_count,
            settled_at=handover.settled_at,
            settle_attempts=handover.settle_attempts,
            lease_until=lease.expires_at if lease else None,
        )

    def _set(self, job_id: str, **changes: Any) -> None:
        kept = self._jobs[job_id]
        kept.job = replace(kept.job, updated_at=self.clock.wall(), **changes)

    def _record(self, job_id: str, kind: Kind, **details: Any) -> None:
        kept = self._jobs[job_id]
        if kept.job.audit != "off":
            job = kept.job
            kept.events.append(
                Event(job_id, kind, self.clock.wall(), job.token, job.owner, details)
            )

    @staticmethod
    def _owns(held: _Lease | Job, grant: Grant) -> bool:
        return held.token == grant.token and held.owner == grant.owner

    def _check(self, grant: Grant, what: str, state: State = State.RUNNING) -> Job:
        kept = self._jobs.get(grant.job_id)
        if kept and kept.job.state is state and self._owns(kept.job, grant):
            return kept.job
        self.refused(grant, what)
        raise StaleToken(f"{what} of job {grant.job_id} with old token {grant.token} was refused")

    def _end(self, job_id: str, state: State, kind: Kind, **details: Any) -> None:
        kept, now = self._jobs[job_id], self.clock.wall()
        self._set(job_id, state=state, completed_at=now)
        kept.keep_until = max(kept.keep_until, now + kept.kept_for)
        self._record(job_id, kind, **details)
        handover = self._handovers[job_id]
        handover.plan(now)
        if not handover.hands_over:
            handover.settled_at = now
            handover.plan(None)

    def _let_go_when_settled(self, grant: Grant) -> None:
        """The lease outlives the end of the job until its holder has handed the outcome out."""
        if self._handovers[grant.task_id].settled_at is not None:
            self._leases.pop(grant.job_id, None)

    def _hand_back(
        self, job_id: str, state: State, delay: float, kind: Kind, **details: Any
    ) -> None:
        at = self.clock.wall() + delay
        self._record(job_id, kind, **details)
        self._leases.pop(job_id, None)
        self._set(job_id, state=state, owner="", available_at=at)
        self._handovers[job_id].plan(at)

    def _settle(self, task_id: str, kind: Kind) -> None:
        handover = self._handovers[task_id]
        if handover.settled_at is None:
            handover.settled_at = self.clock.wall()
            handover.plan(None)
            self._record(handover.job_id, kind, task_id=task_id)
        self._wake_unsettled(handover.job_id)

    def _wake_unsettled(self, job_id: str) -> None:
        for handover in self._handovers.values():
            if handover.job_id == job_id and handover.settled_at is None:
                handover.plan(self.clock.wall())


def lost_holder(attempts: int, reason: str) -> Failure:
    """The failure of a job whose last allowed attempt ended without a word."""
    return Failure(
        name="HolderLost",
        message=reason or f"the holder vanished in the last of {attempts} attempts",
        code="HOLDER_LOST",
        retryable=False,
    )


_named: dict[str, MemoryStore] = {}


def open_memory(url: str, timeout: float) -> MemoryStore:
    """The memory store of that name in this process."""
    del timeout
    return _named.setdefault(urlsplit(url).netloc, MemoryStore())
