"""An existing project before and after its one base class and its one setting."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import wait_for
from tests.support.worker import running_worker

if TYPE_CHECKING:
    from tests.support.databases import TestDatabase

Env = dict[str, str]


@pytest.fixture
def env(postgres_database: TestDatabase, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Env:
    env = {
        "BROKER_URL": redis_url,
        "RESULT_BACKEND": redis_url,
        "LEASE_STORE": "django://default",
        **postgres_database.env,
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return env


def _project(name: str) -> Any:
    """The project, imported anew under this environment."""
    module = f"tests.first_steps.{name}"
    sys.modules.pop(module, None)
    return importlib.import_module(module)


@pytest.mark.parametrize("name", ["plain", "leased"])
def test_callers_see_no_difference(env: Env, name: str) -> None:
    project = _project(name)
    with running_worker(project.__name__, env=env):
        added, summed = project.add.delay(2, 2), project.xsum.delay(numbers=[1, 2, 3])
        chained = (project.add.s(1, 1) | project.add.s(40)).delay()
        summed_later = (project.add.starmap([(1, 1), (2, 2)]) | project.xsum.s()).delay()
        results = [result.get(timeout=20) for result in (added, summed, chained, summed_later)]
    project.app.close()
    assert results == [4, 6, 42, 6]
    assert added.state == "SUCCESS"


def test_the_leased_project_has_its_jobs_in_django(env: Env) -> None:
    from celery_lease.django.models import Job

    project = _project("leased")
    with running_worker(project.__name__, env=env):
        result = project.add.delay(2, 2)
        wait_for(lambda: result.job.settled_at, what="settled")
    project.app.close()
    job = Job.objects.get()
    assert (job.id, job.task, job.state) == (result.id, project.add.name, "succeeded")
    assert (job.arguments, job.result, job.attempts) == ("2, 2", "4", 1)
