"""Submissions: new jobs, and joining the jobs that are there."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Q

from celery_lease.django.clock import as_microseconds
from celery_lease.django.inserting import insert_new
from celery_lease.django.models import Job, Submission
from celery_lease.django.operating import replay
from celery_lease.django.step import Moved
from celery_lease.errors import JobIdConflict, OperationKeyConflict
from celery_lease.job import Kind, NewJob, State, Submitted
from celery_lease.stores.base import PUBLISH_HOLD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery_lease.django.step import Step


#: Seconds; longer than a submission waits for the commit of its transaction.
_LONG_TRANSACTION = 3600.0


@dataclass
class _Known:
    """Jobs by the ids and operation keys that lead to them."""

    by_id: dict[str, Job] = field(default_factory=dict)
    by_key: dict[tuple[str, str], Job] = field(default_factory=dict)

    def add(self, job: Job, task_id: str) -> None:
        self.by_id[task_id] = job
        if job.key:
            self.by_key[job.task, job.key] = job

    def joined(self, new: NewJob) -> Job | None:
        """The job that `new` would join; refuses one that it contradicts."""
        job = self.by_key.get((new.task, new.key)) if new.key else None
        if job and job.fingerprint != new.fingerprint:
            raise OperationKeyConflict(f"{new.task} {new.key!r} is job {job.id}")
        return job

    def same(self, new: NewJob) -> Job | None:
        """The job that has this id already; refuses one of another task."""
        job = self.by_id.get(new.id)
        if job and job.task != new.task:
            raise JobIdConflict(f"task id {new.id} belongs to a job of {job.task}")
        return job


@dataclass
class _Plan:
    """What a batch comes to, decided before anything is written."""

    created: dict[str, Job] = field(default_factory=dict)
    joined: dict[str, Submission] = field(default_factory=dict)
    joined_jobs: dict[str, Job] = field(default_factory=dict)
    replayed: dict[str, tuple[Job, str]] = field(default_factory=dict)
    answers: list[tuple[NewJob, Job, bool, bool]] = field(default_factory=list)


def submit(step: Step, new_jobs: Sequence[NewJob]) -> list[Submitted]:
    """Record submissions.

    Raises:
        Moved: Others recorded some of them at the same time. Nothing was written for a
            single one; a batch has to be undone.
    """
    plan = _plan(step, new_jobs, _known(step, new_jobs))
    _hold(step, plan)
    _insert(step, plan)
    for job_id in sorted(plan.replayed):
        replay(step, *plan.replayed[job_id])
    return [
        Submitted(new.id, job.as_record(), created=created, due_now=due_now)
        for new, job, created, due_now in plan.answers
    ]


def _known(step: Step, new_jobs: Sequence[NewJob]) -> _Known:
    ids = [new.id for new in new_jobs]
    keys: dict[str, list[str]] = {}
    for new in new_jobs:
        if new.key:
            keys.setdefault(new.task, []).append(new.key)
    wanted = Q(pk__in=ids)
    for task, wanted_keys in keys.items():
        wanted |= Q(task=task, key__in=wanted_keys)
    own = step.jobs.filter(wanted).with_lease().with_task_id("id")
    joined = step.jobs.filter(submissions__pk__in=ids).with_lease().with_task_id("submissions__pk")
    known = _Known()
    for job in own.union(joined, all=True):
        known.add(job, job.through)
    return known


def _plan(step: Step, new_jobs: Sequence[NewJob], known: _Known) -> _Plan:
    plan = _Plan()
    for new in new_jobs:
        job = known.same(new)
        if job:
            plan.answers.append((new, job, False, False))
            continue
        job = known.joined(new)
        job = _plan_join(step, plan, new, job) if job else _plan_job(step, plan, new)
        known.add(job, new.id)
    return plan


def _plan_job(step: Step, plan: _Plan, new: NewJob) -> Job:
    job = plan.created[new.id] = _job(step, new)
    plan.answers.append((new, job, True, job.handed_out))
    step.record(job, Kind.CREATED)
    return job


def _plan_join(step: Step, plan: _Plan, new: NewJob, job: Job) -> Job:
    if new.on_dead == "replay" and job.state in (State.DEAD, State.CANCELLED):
        plan.replayed.setdefault(job.id, (job, f"submission {new.id}"))
    ended = job.terminal and job.id not in plan.replayed
    submission = plan.joined[new.id] = _submission(step, new, job, ended=ended)
    plan.joined_jobs[job.id] = job
    plan.answers.append((new, job, False, submission.handed_out))
    step.record(job, Kind.DUPLICATE_SUBMITTED, task_id=new.id)
    return job


def _job(step: Step, new: NewJob) -> Job:
    due_now = new.delay <= 0
    available_at, kept_for = step.after(new.delay), timedelta(seconds=new.kept_for)
    return Job(
        id=new.id,
        task=new.task,
        state=State.PENDING,
        message=new.message,
        body=new.body,
        hands_over=new.hands_over,
        fingerprint=new.fingerprint,
        queue=new.queue,
        key=new.key or None,
        tenant=new.tenant,
        arguments=new.arguments,
        max_attempts=new.max_attempts,
        available_at=available_at,
        expires_at=None if new.expires_in is None else step.after(new.expires_in),
        next_publish_at=step.after(PUBLISH_HOLD) if due_now else available_at,
        handed_out=due_now,
        audit=new.audit,
        created_at=step.now,
        updated_at=step.now,
        kept_for=as_microseconds(kept_for),
        keep_until=available_at + kept_for,
    )


def _submission(step: Step, new: NewJob, job: Job, *, ended: bool) -> Submission:
    submission = Submission(
        task_id=new.id,
        # Not the job itself: that would ask the project's routers.
        job_id=job.id,
        message=new.message,
        body=new.body,
        hands_over=new.hands_over,
        created_at=step.now,
    )
    if new.hands_over:
        submission.handed_out = ended
        submission.next_publish_at = step.after(PUBLISH_HOLD if ended else 0)
    else:
        submission.settled_at = step.now
    return submission


def _hold(step: Step, plan: _Plan) -> None:
    """Keep the jobs that prune may delete before this transaction ends."""
    for job_id in sorted(plan.joined_jobs.keys() - plan.created.keys()):
        job = plan.joined_jobs[job_id]
        prunable = job.terminal and job.keep_until < step.after(_LONG_TRANSACTION)
        if prunable and not step.jobs.filter(pk=job_id).locked().exists():
            raise Moved


def _insert(step: Step, plan: _Plan) -> None:
    # In one order for everybody, so that two batches cannot wait for each other.
    jobs = sorted(plan.created.values(), key=lambda job: (job.task, job.key or "", job.id))
    submissions = [plan.joined[task_id] for task_id in sorted(plan.joined)]
    if insert_new(jobs, step.using) != plan.created.keys():
        raise Moved
    if insert_new(submissions, step.using) != plan.joined.keys():
        raise Moved
