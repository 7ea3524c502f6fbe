"""A worker that comes back after its lease has ended changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_for
from tests.workers.zombies import first_token, refusals, run_another_job_on_each, stopped_holder

if TYPE_CHECKING:
    from celery_lease.job import Job
    from tests.workers.conftest import Project

POOLS = pytest.mark.parametrize("pool", ["prefork", "threads"])


def _end_at_the_successor(project: Project, task_id: str) -> Job:
    wait_for(lambda: project.diary.count("job") == 2, what="successor")
    project.diary.release("job")
    wait_for(lambda: project.job(task_id).settled_at, what="settled")
    return project.job(task_id)


@POOLS
def test_a_zombies_success_is_refused_and_recorded(project: Project, pool: str) -> None:
    job = project.app.deaf.s("job")
    with stopped_holder(project, pool, job, "job") as (zombie, task_id):
        before = _end_at_the_successor(project, task_id)
        zombie.cont_all()
        wait_for(lambda: refusals(project, task_id), what="refusal")
        zombie.wait_log("was refused")
    assert project.job(task_id) == before
    assert before.result == '"job:2"'
    [refusal] = refusals(project, task_id)
    assert refusal.token == first_token(project, "job")


@POOLS
def test_a_zombies_verdict_is_dropped(redis_project: Project, pool: str) -> None:
    project = redis_project
    job = project.app.deaf.s("job").set(link=project.app.plain_follow.s("followed"))
    with stopped_holder(project, pool, job, "job") as (zombie, task_id):
        _end_at_the_successor(project, task_id)
        zombie.cont_all()
        zombie.wait_log("was refused")
        wait_for(lambda: project.diary.count("followed"), what="follower")
        run_another_job_on_each(project)
    assert project.app.app.backend.get_result(task_id) == "job:2"
    assert project.diary.count("followed") == 1


@POOLS
def test_a_zombie_that_listens_writes_nothing_at_all(redis_project: Project, pool: str) -> None:
    project = redis_project
    job = project.app.told.s("job")
    with stopped_holder(project, pool, job, "job") as (zombie, task_id):
        wait_for(lambda: project.diary.count("job") == 2, what="successor")
        zombie.cont_all()
        wait_for(lambda: project.diary.count("job:LeaseLost"), what="interrupt")
        before = _end_at_the_successor(project, task_id)
        run_another_job_on_each(project)
    assert project.job(task_id) == before
    assert refusals(project, task_id) == []


@POOLS
def test_a_zombie_in_its_hand_over_doubles_nothing(redis_project: Project, pool: str) -> None:
    project = redis_project
    job = project.app.linger.s("job").set(link=project.app.follow.s("followed"))
    with stopped_holder(project, pool, job, "handover-{id}") as (zombie, task_id):
        wait_for(lambda: project.diary.count("followed"), what="follower")
        wait_for(lambda: project.job(task_id).settled_at, what="settled")
        project.diary.release(f"handover-{task_id}")
        zombie.cont_all()
        zombie.wait_log(rf"linger\[{task_id}\] succeeded")
        run_another_job_on_each(project)
    assert [project.diary.count(name) for name in ("job", "followed")] == [1, 1]
    kinds = project.kinds(task_id)
    assert [kinds.count("succeeded"), kinds.count("settled")] == [1, 1]
