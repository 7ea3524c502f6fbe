"""A submission belongs to the caller's transaction, and a key to one job, whoever submits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from django.db import transaction
from kombu import Connection

from celery_lease import OperationKeyConflict

if TYPE_CHECKING:
    from tests.workers.conftest import Project


def messages(project: Project) -> int:
    """How many messages wait in the project's queue."""
    with Connection(project.env["BROKER_URL"]) as broker:
        queue = project.app.app.amqp.queues[project.env["QUEUE"]](broker.default_channel)
        declared = queue.queue_declare(passive=False)
        return int(declared.message_count)


def jobs(project: Project) -> int:
    return sum(project.store.counts().by_state.values())


def test_the_message_leaves_after_the_commit(project: Project) -> None:
    with transaction.atomic():
        result = project.app.note.delay("job")
        assert project.job(result.id).state == "pending"
        assert messages(project) == 0
    assert messages(project) == 1
    with project.worker():
        project.wait_for_state(result.id, "succeeded")
    assert project.diary.count("job") == 1


def test_others_do_not_see_the_job_before_the_commit(redis_project: Project) -> None:
    with ThreadPoolExecutor(1) as elsewhere, transaction.atomic():
        result = redis_project.app.note.delay("job")
        assert elsewhere.submit(redis_project.store.get, result.id).result() is None
        elsewhere.submit(redis_project.store.close).result()


def test_a_rollback_leaves_nothing(project: Project) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        result = project.app.note.delay("job")
        raise ZeroDivisionError
    assert project.store.get(result.id) is None
    assert (messages(project), jobs(project)) == (0, 0)


def test_a_savepoint_that_is_rolled_back_leaves_nothing(redis_project: Project) -> None:
    with transaction.atomic():
        kept = redis_project.app.note.delay("kept")
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            redis_project.app.note.delay("lost")
            raise ZeroDivisionError
    assert (messages(redis_project), jobs(redis_project)) == (1, 1)
    assert redis_project.job(kept.id).state == "pending"


def test_a_conflict_does_not_spoil_the_transaction(redis_project: Project) -> None:
    keyed = redis_project.app.keyed
    with transaction.atomic():
        first = keyed.delay("k", 1)
        with pytest.raises(OperationKeyConflict):
            keyed.delay("k", 2)
    assert redis_project.job(first.id).state == "pending"
    assert messages(redis_project) == 1


def test_arguments_that_cannot_be_serialised_do_not_spoil_it_either(
    redis_project: Project,
) -> None:
    from celery_lease.errors import MessageNotSerialisable

    with transaction.atomic():
        kept = redis_project.app.note.delay("kept")
        with pytest.raises(MessageNotSerialisable):
            redis_project.app.note.delay(object())
    assert redis_project.job(kept.id).state == "pending"
    assert jobs(redis_project) == 1


@pytest.mark.parametrize("verb", ["delay_on_commit", "apply_async_on_commit"])
def test_submitting_on_commit(redis_project: Project, verb: str) -> None:
    args = ("job",) if verb == "delay_on_commit" else (("job",),)
    with transaction.atomic():
        getattr(redis_project.app.note, verb)(*args)
        assert jobs(redis_project) == 0
    assert (messages(redis_project), jobs(redis_project)) == (1, 1)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        getattr(redis_project.app.note, verb)(*args)
        raise ZeroDivisionError
    assert (messages(redis_project), jobs(redis_project)) == (1, 1)


def test_twenty_submissions_of_one_key_at_once_are_one_job(redis_project: Project) -> None:
    keyed, store = redis_project.app.keyed, redis_project.store

    def submit(n: int) -> tuple[str, str, bool]:
        try:
            result = keyed.apply_async(("k", 1), task_id=f"s{n}")
            return result.id, result.job.id, result.duplicate
        finally:
            store.close()

    with ThreadPoolExecutor(20) as threads:
        submitted = list(threads.map(submit, range(20)))
    assert [own for own, _, _ in submitted] == [f"s{n}" for n in range(20)]
    assert len({job for _, job, _ in submitted}) == 1
    assert [duplicate for _, _, duplicate in submitted].count(False) == 1
    assert jobs(redis_project) == 1
    with redis_project.worker():
        results = [keyed.AsyncResult(own).get(timeout=20) for own, _, _ in submitted]
    assert results == ["k"] * 20
    assert redis_project.diary.count("k") == 1
