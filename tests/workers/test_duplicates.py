"""Every submission under a key gets the one job's outcome, under its own id, with its followers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from celery_lease import OperationKeyConflict
from tests.support.waiting import wait_for
from tests.workers.conftest import environment, opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.databases import TestDatabase
    from tests.support.valkey import PrivateValkey
    from tests.workers.conftest import Project


@pytest.fixture
def fragile(
    postgres_database: TestDatabase, private_valkey: PrivateValkey, tmp_path: Path
) -> Iterator[Project]:
    """The project on a broker that a test may flush."""
    env, diary = environment(postgres_database, private_valkey.url, "celery", tmp_path / "diary")
    with opened(env, diary) as project:
        yield project


def _submit(project: Project, name: str) -> Any:
    """A submission of the one operation, with a follower that is its own."""
    return project.app.held.apply_async(("op",), task_id=name, link=_follower(project, name))


def _follower(project: Project, name: str) -> Any:
    return project.app.follow.s(f"after {name}")


def _assert_all_served(project: Project, results: list[Any]) -> None:
    assert [result.get(timeout=20) for result in results] == ["op:1"] * len(results)
    for result in results:
        wait_for(lambda name=result.id: project.diary.count(f"after {name}"), 20, what=result.id)
    assert [project.diary.count(f"after {result.id}") for result in results] == [1] * len(results)
    assert project.diary.count("op") == 1


def test_submissions_before_during_and_after_the_run_are_all_served(
    redis_project: Project,
) -> None:
    project = redis_project
    results = [_submit(project, "first"), _submit(project, "waiting")]
    with project.worker(concurrency=2):
        wait_for(lambda: project.diary.count("op"), what="start")
        results.append(_submit(project, "running"))
        project.diary.release("op")
        project.wait_for_state("first", "succeeded")
        results.append(_submit(project, "ended"))
        _assert_all_served(project, results)
        wait_for(lambda: project.store.counts().due == 0, what="nothing due")
    assert [result.duplicate for result in results] == [False, True, True, True]
    assert {result.job.id for result in results} == {"first"}
    assert project.kinds("first").count("duplicate_submitted") == 3


def test_a_broker_that_loses_the_hint_of_a_duplicate_loses_nothing(
    fragile: Project, private_valkey: PrivateValkey
) -> None:
    project = fragile
    with project.worker(concurrency=1), private_valkey.client() as client:
        _submit(project, "first")
        wait_for(lambda: project.diary.count("op"), what="start")
        _submit(project, "second")
        project.app.hold.delay("blocker")
        project.diary.release("op")
        wait_for(lambda: project.diary.count("blocker"), what="busy worker")
        wait_for(lambda: client.llen("celery"), what="hint")
        client.flushall()
        project.diary.release("blocker")
        wait_for(lambda: project.diary.count("after second"), 20, what="follower")
    names = ("op", "after first", "after second", "blocker")
    assert [project.diary.count(name) for name in names] == [1, 1, 1, 1]


def test_every_submission_of_a_dead_job_is_told(redis_project: Project) -> None:
    project = redis_project
    give_up = project.app.give_up
    results = [
        give_up.apply_async(
            ("job",), lease_key="op", task_id=name, link_error=project.app.mourn.s()
        )
        for name in ("first", "second")
    ]
    with project.worker():
        for result in results:
            wait_for(
                lambda name=result.id: project.diary.count(f"mourn {name}"), 20, what=result.id
            )
            assert result.state == "FAILURE"
    assert project.diary.count("job") == 1
    assert [project.diary.count(f"mourn {result.id}") for result in results] == [1, 1]


def test_a_conflict_leaves_the_first_job_alone(redis_project: Project) -> None:
    project = redis_project
    first = project.app.keyed.delay("op", 1)
    with pytest.raises(OperationKeyConflict):
        project.app.keyed.delay("op", 2)
    with project.worker():
        assert first.get(timeout=20) == "op"
    assert project.diary.count("op") == 1
