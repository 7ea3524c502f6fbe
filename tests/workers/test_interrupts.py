"""A body is told to end: by an interrupt where the pool can raise one, by `check()` everywhere."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.valkey import own_redis_database
from tests.support.waiting import wait_for
from tests.workers.conftest import environment, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django.plugin import DjangoDbBlocker

    from tests.support.databases import PostgresDatabases
    from tests.workers.conftest import Project

EVERY_POOL = pytest.mark.parametrize(
    "pooled", ["prefork", "threads", "solo", "gevent"], indirect=True, scope="module"
)
#: Nothing can be thrown into a greenlet from another thread.
RAISING_POOL = pytest.mark.parametrize(
    "pooled", ["prefork", "threads", "solo"], indirect=True, scope="module"
)


@pytest.fixture(scope="module")
def pooled(
    request: pytest.FixtureRequest,
    postgres_databases: PostgresDatabases,
    redis_server: str,
    tmp_path_factory: pytest.TempPathFactory,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[Project]:
    """A project with one worker of a pool, shared by the tests of this module."""
    with ExitStack() as stack:
        stack.enter_context(django_db_blocker.unblock())
        database = stack.enter_context(postgres_databases.copy())
        broker = stack.enter_context(own_redis_database(redis_server))
        folder = tmp_path_factory.mktemp("pooled") / "diary"
        env, diary = environment(database, broker, "celery", folder)
        project = stack.enter_context(opened({**env, "RESULT_BACKEND": broker}, diary))
        stack.enter_context(project.worker(pool=request.param))
        yield project


def _cancel(project: Project, task_id: str) -> None:
    assert project.store.cancel(task_id, by="test")


def _expire_owner(project: Project, task_id: str) -> None:
    project.store.expire_owner(project.job(task_id).owner, "test")


def _started(project: Project, line: str) -> None:
    wait_for(lambda: project.diary.count(line), what=line)


@RAISING_POOL
@pytest.mark.parametrize("take", [_cancel, _expire_owner])
def test_a_body_whose_lease_is_taken_is_interrupted(
    pooled: Project, take: Callable[[Project, str], None]
) -> None:
    name = f"job{take.__name__}"
    task_id = pooled.app.told.delay(name).id
    _started(pooled, name)
    take(pooled, task_id)
    _started(pooled, f"{name}:LeaseLost")
    pooled.diary.release(name)
    ended = wait_for(lambda: _terminal(pooled, task_id), 20, what="end")
    assert ended == ("cancelled" if take is _cancel else "succeeded")
    assert "stale_write_refused" not in pooled.kinds(task_id)


@RAISING_POOL
def test_a_body_whose_job_is_deleted_is_interrupted(pooled: Project) -> None:
    from celery_lease.django.models import Job, JobLease

    task_id = pooled.app.told.delay("deleted").id
    _started(pooled, "deleted")
    JobLease.objects.filter(job=task_id).delete()
    Job.objects.filter(id=task_id).delete()
    _started(pooled, "deleted:LeaseLost")
    after = pooled.app.note.delay("after-deleted")
    pooled.wait_for_state(after.id, "succeeded")


def _terminal(project: Project, task_id: str) -> str:
    job = project.job(task_id)
    return job.state if job.terminal else ""


@RAISING_POOL
def test_an_attempt_that_runs_too_long_is_retried_and_dead_at_the_last(pooled: Project) -> None:
    result = pooled.app.told.apply_async(("slow",), lease_attempt_timeout=0.5)
    job = pooled.wait_for_state(result.id, "dead")
    assert (job.attempts, pooled.diary.count("slow:AttemptTimedOut")) == (2, 2)
    assert job.failure is not None
    assert job.failure.code == "ATTEMPT_TIMED_OUT"
    wait_for(lambda: pooled.app.app.AsyncResult(result.id).state == "FAILURE", what="FAILURE")
    assert pooled.kinds(result.id).count("retry_scheduled") == 1


@RAISING_POOL
def test_an_interrupt_inside_the_database_driver_breaks_no_later_job(pooled: Project) -> None:
    names = [f"query-{n}" for n in range(2)]
    for name in names:
        task_id = pooled.app.query.apply_async((name,), lease_attempt_timeout=0.2).id
        job = pooled.wait_for_state(task_id, "dead")
        assert (job.attempts, job.failure and job.failure.code) == (2, "ATTEMPT_TIMED_OUT")


@RAISING_POOL
def test_a_shield_holds_an_interrupt_back_until_it_opens(pooled: Project) -> None:
    task_id = pooled.app.shielded.delay("shield").id
    _started(pooled, "shield")
    _cancel(pooled, task_id)
    _started(pooled, "shield:LeaseLost")
    assert pooled.diary.count("shield:held back") == 1


@RAISING_POOL
def test_a_commit_holds_an_interrupt_back_and_is_refused(pooled: Project) -> None:
    task_id = pooled.app.shielded.delay("commit", by_commit=True).id
    _started(pooled, "commit")
    _cancel(pooled, task_id)
    _started(pooled, "commit:StaleToken")
    assert pooled.diary.count("commit:held back") == 1
    assert pooled.job(task_id).state == "cancelled"


@EVERY_POOL
def test_a_body_that_asks_is_told(pooled: Project) -> None:
    task_id = pooled.app.check.delay("check").id
    _started(pooled, "check:False:True")
    _cancel(pooled, task_id)
    _started(pooled, "check:LeaseLost:True")


@pytest.mark.parametrize("pooled", ["prefork"], indirect=True, scope="module")
def test_a_hard_time_limit_fails_the_attempt_not_the_task(pooled: Project) -> None:
    result = pooled.app.overlong.delay("over")
    wait_for(lambda: "retry_scheduled" in pooled.kinds(result.id), 20, what="first retry")
    assert pooled.app.app.AsyncResult(result.id).state != "FAILURE"
    job = pooled.wait_for_state(result.id, "dead")
    assert (job.attempts, pooled.diary.count("over")) == (2, 2)
    assert job.failure is not None
    assert job.failure.code == "ATTEMPT_TIMED_OUT"
    wait_for(lambda: pooled.app.app.AsyncResult(result.id).state == "FAILURE", what="FAILURE")


@pytest.mark.parametrize("pooled", ["prefork"], indirect=True, scope="module")
def test_a_task_that_kills_its_process_is_dead_after_its_last_attempt(pooled: Project) -> None:
    result = pooled.app.kill_oneself.delay("kill")
    job = pooled.wait_for_state(result.id, "dead", 30)
    assert (job.attempts, pooled.diary.count("kill")) == (3, 3)
    assert job.failure is not None
    assert job.failure.code == "HOLDER_LOST"
    wait_for(lambda: pooled.app.app.AsyncResult(result.id).state == "FAILURE", what="FAILURE")
    note = pooled.app.note.delay("alive")
    pooled.wait_for_state(note.id, "succeeded")
    assert pooled.diary.count("kill") == 3
