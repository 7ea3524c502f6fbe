"""A message without its job: pruned, missing, or from somebody else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from kombu import Connection

from celery_lease.django.models import Job, JobEvent
from celery_lease.message import HEADER, Message
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.workers.conftest import Project


def _publish(project: Project, job: Any, *, keep: float) -> None:
    """Deliver the job's message once more, as if its row were kept until `keep`."""
    message = Message.loads(job.message)
    headers = {**message.headers, HEADER: {**message.headers[HEADER], "keep": keep}}
    with Connection(project.env["BROKER_URL"]) as broker:
        broker.Producer().publish(
            job.body,
            exchange=message.exchange,
            routing_key=message.routing_key,
            headers=headers,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            **message.properties,
        )


def _forget(task_id: str) -> None:
    JobEvent.objects.filter(job=task_id).delete()
    Job.objects.filter(pk=task_id).delete()


def test_a_late_message_of_a_pruned_job_is_dropped(project: Project) -> None:
    with project.worker() as worker:
        result = project.app.note.delay("job")
        wait_for(lambda: project.job(result.id).settled_at, what="settled")
        job = project.job(result.id)
        _forget(result.id)
        _publish(project, job, keep=time.time() - 1)
        worker.wait_log(f"job {result.id} was pruned, its late message is dropped")
        after = project.app.note.delay("after")
        project.wait_for_state(after.id, "succeeded")
        assert project.store.get(result.id) is None
    assert project.diary.count("job") == 1
    with project.worker():
        # Not acknowledged, it would have been delivered to this one.
        last = project.app.note.delay("last")
        project.wait_for_state(last.id, "succeeded")
    assert project.diary.count("job") == 1


@pytest.mark.slow
def test_a_missing_job_is_a_fault_and_its_message_is_kept_alive(project: Project) -> None:
    result = project.app.note.delay("job")
    job = Job.objects.get(pk=result.id)
    record = project.job(result.id)
    _forget(result.id)
    with project.worker() as worker:
        worker.wait_log(rf"ERROR.*job {result.id} is missing although it is kept until")
        worker.wait_log(rf"{result.id} is delivered again in 2 s")
        assert project.diary.count("job") == 0
        # The backup is restored.
        job.save(force_insert=True)
        project.wait_for_state(result.id, "succeeded")
    assert project.diary.count("job") == 1
    assert project.job(result.id).body == record.body


def test_a_message_of_an_app_that_does_not_know_the_task(project: Project) -> None:
    sender = Celery("other", broker=project.env["BROKER_URL"], set_as_current=False)
    link = project.app.follow.s("follower")
    name, queue = project.app.note.name, project.app.app.amqp.queues[project.env["QUEUE"]]
    sent = sender.send_task(name, ("foreign",), queue=queue, link=link)
    sender.close()
    with project.worker():
        wait_for(lambda: project.store.get(sent.id), what="job")
        project.wait_for_state(sent.id, "succeeded")
        wait_for(lambda: project.diary.count("follower"), what="follower")
    assert (project.diary.count("foreign"), project.diary.count("follower")) == (1, 1)
