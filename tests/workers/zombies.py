"""A worker that is stopped while it holds a job, and another one beside it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from celery.canvas import Signature

    from celery_lease.job import Event
    from tests.support.worker import Worker
    from tests.workers.conftest import Project


@contextmanager
def stopped_holder(
    project: Project, pool: str, job: Signature, line: str
) -> Iterator[tuple[Worker, str]]:
    """A worker that is stopped once `line` is in the diary; its successor is ready.

    Yields:
        The stopped worker, and the id of the job.
    """
    one = {"pool": pool, "concurrency": 1}
    with project.worker(**one) as holder:
        task_id = job.delay().id
        wait_for(lambda: project.diary.count(line.format(id=task_id)), what=line)
        with project.worker(**one):
            holder.stop_all()
            yield holder, task_id


def refusals(project: Project, task_id: str) -> list[Event]:
    events = project.events(task_id)
    return [event for event in events if event.kind == "stale_write_refused"]


def first_token(project: Project, line: str) -> int:
    return project.diary.entries(line)[0].token


def run_another_job_on_each(project: Project) -> None:
    """Each worker is free again; what the zombie had left to send has arrived after this."""
    for name in ("this", "that"):
        project.app.hold.delay(name)
    for name in ("this", "that"):
        wait_for(lambda name=name: project.diary.count(name), what=name)
    for name in ("this", "that"):
        project.diary.release(name)
    wait_for(lambda: project.diary.count("that:end") == 1, what="the end of both")
