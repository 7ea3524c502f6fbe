"""What stands in one cell of a page; whatever a user supplied is escaped by `format_html`."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

from django.utils.html import format_html
from django.utils.timezone import localtime

from celery_lease.job import TERMINAL, Failure

if TYPE_CHECKING:
    from datetime import datetime

    from django.utils.safestring import SafeString

    from celery_lease.django.models import Job

NOTHING = "-"
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def badge(kind: str, text: str = "") -> SafeString:
    """A word on a colour, which the style sheet chooses by `kind`."""
    words = text or kind.replace("_", " ")
    return format_html('<span class="lease-badge lease-{}">{}</span>', kind, words)


def task_name(job: Job) -> SafeString:
    """The last part of the task's name, the whole in the title."""
    return titled(job.task.rpartition(".")[2] or job.task, job.task)


def titled(text: str, title: str) -> SafeString:
    """Text that tells more under the pointer."""
    return format_html('<span title="{}">{}</span>', title, text)


def block(text: str | None) -> SafeString | str:
    """Text as it is, line by line."""
    return format_html('<pre class="lease-pre">{}</pre>', text) if text else NOTHING


def span(wait: timedelta) -> str:
    """A duration in its largest unit."""
    seconds = max(0.0, wait.total_seconds())
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def clock_time(at: datetime | None) -> str:
    """A point in time to the millisecond, in the reader's time zone."""
    return localtime(at).isoformat(" ", "milliseconds") if at else NOTHING


def ago(job: Job, at: datetime | None) -> SafeString | str:
    """How long before the job was read that was."""
    return titled(span(_read_at(job) - at), clock_time(at)) if at else NOTHING


def next_run(job: Job) -> SafeString | str:
    """How long until a claim may start the job."""
    if job.state in TERMINAL or not job.claimable:
        return NOTHING
    wait = job.available_at - _read_at(job)
    text = "now" if wait <= timedelta(0) else f"in {span(wait)}"
    return titled(text, clock_time(job.available_at))


def lease(job: Job) -> SafeString | str:
    """Who holds the job and for how long still."""
    held = getattr(job, "lease", None)
    if held is None:
        return NOTHING
    left = held.expires_at - _read_at(job)
    live = left > timedelta(0)
    text = f"{span(left)} left" if live else f"expired {span(-left)}"
    health = badge("live" if live else "expired", text)
    return format_html('{} <span class="lease-owner">{}</span>', health, held.owner)


def failure(job: Job) -> SafeString | str:
    """Why the last attempt failed, with its traceback."""
    if not job.failure:
        return NOTHING
    one = Failure.loads(job.failure)
    again = "retryable" if one.retryable else "not retryable"
    return block(f"{one.code} ({again})\n{one.name}: {one.message}\n\n{one.traceback}".rstrip())


def details(text: str) -> str:
    """An event's details as `name: value`, one after the other."""
    return ", ".join(f"{name}: {value}" for name, value in json.loads(text).items())


def _read_at(job: Job) -> datetime:
    # Its pages read each job with the clock of the same statement.
    if job.read_at is None:
        raise ValueError(f"job {job.id} was read without the store's clock")
    return job.read_at
