"""What is kept is kept long enough, and what is pruned does not come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kombu import Connection

from celery_lease.job import Due
from celery_lease.publisher import Publisher
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from celery_lease.job import Job
    from tests.workers.conftest import Project


def _publish_again(project: Project, job: Job) -> None:
    """The job's own message, as a broker may deliver it late or twice."""
    Publisher(project.app.app).publish([Due(job.id, job.message, job.body, 0)])


def _is_empty(project: Project) -> bool:
    """Whether no message is left, waiting or unacknowledged."""
    with Connection(project.env["BROKER_URL"]) as broker:
        client = broker.default_channel.client
        return not client.exists(project.env["QUEUE"], "unacked")


def test_a_late_message_is_acknowledged_after_the_retention(redis_project: Project) -> None:
    project = redis_project
    with project.worker() as worker:
        result = project.app.brief.delay("job")
        wait_for(lambda: project.job(result.id).settled_at, what="settled")
        job = project.job(result.id)
        wait_for(lambda: project.store.prune(100) or not project.store.get(result.id), what="prune")
        _publish_again(project, job)
        worker.wait_log(f"INFO.*job {result.id} was pruned, its late message is dropped")
        wait_for(lambda: _is_empty(project), what="acknowledgement")
    assert project.store.get(result.id) is None
    assert project.diary.count("job") == 1


def test_a_late_message_of_a_settled_job_is_acknowledged(redis_project: Project) -> None:
    project = redis_project
    with project.worker():
        result = project.app.note.apply_async(("job",), link=project.app.plain_note.si("after"))
        wait_for(lambda: project.job(result.id).settled_at, what="settled")
        assert project.store.prune(100) == 0
        before = project.job(result.id)
        _publish_again(project, before)
        wait_for(lambda: _is_empty(project), what="acknowledgement")
        wait_for(lambda: project.diary.count("after"), what="follower")
    assert project.job(result.id) == before
    assert [project.diary.count(name) for name in ("job", "after")] == [1, 1]
