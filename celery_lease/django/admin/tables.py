"""What belongs to a job, as tables in its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.html import format_html, format_html_join

from celery_lease.django.admin.cells import NOTHING, badge, clock_time, details

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django.utils.safestring import SafeString

    from celery_lease.django.models import Job, JobEvent

#: Rows of one table; an audit of every renewal may have left many more.
LIMIT = 500


def timeline(job: Job) -> SafeString | str:
    """The events, oldest first."""
    newest = list(job.events.order_by("-id")[: LIMIT + 1])
    rows = [_event(event) for event in reversed(newest[:LIMIT])]
    table = _table(("Time", "Event", "Token", "Owner", "Details"), rows)
    return _shortened(table, "Older events are left out.") if len(newest) > LIMIT else table


def submissions(job: Job) -> SafeString | str:
    """The submissions that joined, oldest first."""
    joined = job.submissions.order_by("created_at", "task_id")
    found = list(joined.only("job_id", "created_at", "settled_at", "next_publish_at")[: LIMIT + 1])
    rows = [
        (one.task_id, clock_time(one.created_at), clock_time(one.settled_at))
        for one in found[:LIMIT]
    ]
    table = _table(("Task id", "Submitted", "Settled"), rows)
    return _shortened(table, "Later submissions are left out.") if len(found) > LIMIT else table


def lease(job: Job) -> SafeString | str:
    """The lease row, which may have outlived the attempt."""
    held = getattr(job, "lease", None)
    if held is None:
        return NOTHING
    facts = {
        "Owner": held.owner,
        "Token": str(held.token),
        "Ends": clock_time(held.expires_at),
        "Renewals": str(held.renewals),
        "Asked of it": held.ask or NOTHING,
    }
    return _facts(facts)


def times(job: Job) -> SafeString:
    """Each time that the job has."""
    names = {
        "Submitted": job.created_at,
        "Not before": job.available_at,
        "Not after": job.expires_at,
        "Last started": job.started_at,
        "Ended": job.completed_at,
        "Handed to Celery": job.settled_at,
        "Next message": job.next_publish_at,
        "Kept until": job.keep_until,
    }
    return _facts({name: clock_time(at) for name, at in names.items()})


def _facts(facts: dict[str, str]) -> SafeString:
    row = '<tr><th scope="row">{}</th><td>{}</td></tr>'
    rows = format_html_join("", row, facts.items())
    return format_html('<table class="lease-table"><tbody>{}</tbody></table>', rows)


def _event(event: JobEvent) -> tuple[str, ...]:
    token = str(event.token) if event.token else NOTHING
    owner = event.owner or NOTHING
    return (clock_time(event.at), badge(event.kind), token, owner, details(event.details))


def _table(heads: Sequence[str], rows: Iterable[tuple[str, ...]]) -> SafeString | str:
    cells = format_html_join("", "<tr>{}</tr>", ((_row("<td>{}</td>", row),) for row in rows))
    if not cells:
        return NOTHING
    head = _row('<th scope="col">{}</th>', heads)
    return format_html(
        '<div class="lease-scroll"><table class="lease-table">'
        "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        head,
        cells,
    )


def _row(cell: str, values: Iterable[str]) -> SafeString:
    return format_html_join("", cell, ((value,) for value in values))


def _shortened(table: SafeString | str, note: str) -> SafeString:
    return format_html('{}<p class="lease-note">{}</p>', table, note)
