"""A worker that comes back inside `lease.commit()` leaves none of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Group

from tests.support.waiting import wait_for
from tests.workers.zombies import run_another_job_on_each, stopped_holder

if TYPE_CHECKING:
    from tests.workers.conftest import Project


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_zombie_inside_its_commit_writes_nothing(redis_project: Project, pool: str) -> None:
    project = redis_project
    job = project.app.effect.s("job")
    with stopped_holder(project, pool, job, "job") as (zombie, task_id):
        wait_for(lambda: project.diary.count("job") == 2, what="successor")
        project.diary.release("job")
        wait_for(lambda: project.job(task_id).settled_at, what="settled")
        before = project.job(task_id)
        zombie.cont_all()
        wait_for(lambda: project.diary.count("job:refused"), what="refusal")
        run_another_job_on_each(project)
    assert list(Group.objects.values_list("name", flat=True)) == ["job:2"]
    assert project.job(task_id) == before
    assert project.kinds(task_id).count("succeeded") == 1
    assert "stale_write_refused" in project.kinds(task_id)
