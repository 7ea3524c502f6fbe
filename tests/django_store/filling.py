"""Many jobs at once, in the states that a store in use has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import connection

from celery_lease.django.models import Job, JobEvent, JobLease, Submission
from celery_lease.job import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import Field

DAY = timedelta(days=1)
#: How many of a thousand jobs are in each state: most of a table is history.
SHARES = (
    (State.SUCCEEDED, 920),
    (State.DEAD, 40),
    (State.CANCELLED, 20),
    (State.RUNNING, 4),
    (State.RETRY_WAIT, 8),
    (State.PENDING, 8),
)
_STATES = [state for state, share in SHARES for _ in range(share)]


def fill(count: int) -> None:
    """Jobs of the past four weeks, with their events, leases and submissions."""
    now = datetime.now(UTC)
    jobs = [_job(n, now - DAY * 28 * n / count, now) for n in range(count)]
    Job.objects.bulk_create(jobs, batch_size=500)
    running = [job for job in jobs if job.state == State.RUNNING]
    JobLease.objects.bulk_create([_lease(job, now) for job in running], batch_size=500)
    Submission.objects.bulk_create([_joined(job) for job in jobs[::2]], batch_size=500)
    JobEvent.objects.bulk_create(_events(jobs), batch_size=2000)


def multiply(copies: int) -> None:
    """So many copies of each job on PostgreSQL, each a minute older than the one before."""
    for model in (Job, JobEvent, JobLease, Submission):
        fields = [field for field in model._meta.concrete_fields if field.name != "id"]
        if model is Job:
            fields.append(Job._meta.pk)
        names = ", ".join(f'"{field.column}"' for field in fields)
        copied = ", ".join(_copied(field) for field in fields)
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {model._meta.db_table} ({names}) SELECT {copied} "  # noqa: S608  # our own names
                f"FROM {model._meta.db_table}, generate_series(1, {copies}) AS copy"
            )


def _copied(field: Field[Any, Any]) -> str:
    if field.column in ("id", "job_id", "task_id", "key"):
        return f"""\"{field.column}\" || '.' || copy"""
    return f'"{field.column}"' + (
        " - copy::bigint * 60000000" if field.column == "created_at" else ""
    )


def fill_prunable(count: int) -> None:
    """Settled jobs whose retention has ended."""
    now = datetime.now(UTC)
    jobs = [_job(n * 1000, now - DAY * 60, now) for n in range(count)]
    Job.objects.bulk_create(jobs, batch_size=500)


def _job(n: int, created: datetime, now: datetime) -> Job:
    # Spread, so that no state lies in one part of the table.
    state = _STATES[n * 37 % 1000]
    ended = state in (State.SUCCEEDED, State.DEAD, State.CANCELLED)
    planned = None if ended or state == State.RUNNING else now + DAY * (n % 7 - 1)
    return Job(
        id=f"job-{n:08d}",
        task=f"shop.tasks.number_{n % 5}",
        state=state,
        key=f"key-{n}" if n % 2 else None,
        message="{}",
        body=b"",
        fingerprint="f",
        max_attempts=6,
        token=n + 1 if state != State.PENDING else 0,
        owner="host:1:aaaa:1" if state == State.RUNNING else "",
        available_at=planned or created,
        next_publish_at=planned,
        published_epoch="old" if planned and n % 3 else "",
        audit="transitions",
        created_at=created,
        updated_at=created,
        completed_at=created if ended else None,
        settled_at=created if ended else None,
        kept_for=0,
        keep_until=created + DAY * 27,
    )


def _lease(job: Job, now: datetime) -> JobLease:
    ends = now + timedelta(seconds=job.token % 60 - 1)
    return JobLease(job=job, token=job.token, owner=job.owner, expires_at=ends)


def _joined(job: Job) -> Submission:
    return Submission(
        task_id=f"{job.id}+1",
        job=job,
        message="{}",
        body=b"",
        created_at=job.created_at,
        settled_at=job.settled_at,
        next_publish_at=None if job.settled_at else job.created_at,
    )


def _events(jobs: Iterable[Job]) -> list[JobEvent]:
    kinds = ("created", "claimed", "succeeded")
    return [
        JobEvent(job=job, kind=kind, at=job.created_at, token=job.token)
        for job in jobs
        for kind in kinds
    ]
