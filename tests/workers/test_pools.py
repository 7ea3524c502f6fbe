"""A long task keeps its lease on every pool, whoever starts or stops beside it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.workers.conftest import Project

TTL = 3
POOLS = ("prefork", "threads", "gevent", "solo")


@contextmanager
def all_pools(project: Project) -> Iterator[None]:
    """A worker of each pool, with a queue of its name."""
    workers = [{"pool": pool, "queues": (pool,)} for pool in POOLS]
    with project.workers(*workers):
        yield


@contextmanager
def sibling(project: Project, slots: int = len(POOLS)) -> Iterator[None]:
    """A worker that could take the jobs of all the others."""
    with project.worker(pool="threads", concurrency=slots, queues=POOLS):
        yield


def _wait_for_starts(project: Project) -> None:
    for pool in POOLS:
        wait_for(lambda pool=pool: project.diary.count(pool), what=f"start on {pool}")


def _assert_one_start_each(project: Project, jobs: list[str]) -> None:
    for pool, job in zip(POOLS, jobs, strict=True):
        ended = project.wait_for_state(job, "succeeded", 30)
        assert (ended.attempts, project.diary.count(pool), pool) == (1, 1, pool)


@pytest.mark.slow
def test_a_task_of_four_leases_starts_once_on_each_pool(redis_project: Project) -> None:
    project = redis_project
    with all_pools(project):
        hold = project.app.hold
        jobs = [hold.apply_async((pool, 4.0 * TTL), queue=pool).id for pool in POOLS]
        _wait_for_starts(project)
        with sibling(project):
            for pool in POOLS:
                wait_for(lambda pool=pool: project.diary.count(f"{pool}:end"), 30, what=pool)
            _assert_one_start_each(project, jobs)


@pytest.mark.slow
def test_a_task_that_keeps_the_interpreter_busy_starts_once(redis_project: Project) -> None:
    project = redis_project
    with all_pools(project):
        busy = project.app.busy
        jobs = [busy.apply_async((pool, 3.0 * TTL), queue=pool).id for pool in POOLS]
        _wait_for_starts(project)
        with sibling(project):
            _assert_one_start_each(project, jobs)


@pytest.mark.parametrize("pool", ["gevent", "threads"])
def test_a_sibling_that_starts_or_stops_touches_no_live_lease(project: Project, pool: str) -> None:
    with project.worker(pool=pool):
        job = project.app.hold.delay("job").id
        wait_for(lambda: project.diary.count("job"), what="start")
        held = project.job(job)
        with project.worker(pool=pool) as beside:
            beside.term()
            beside.wait_exit()
        assert (project.job(job).token, project.job(job).state) == (held.token, "running")
        project.diary.release("job")
        assert project.wait_for_state(job, "succeeded").attempts == 1
    assert project.diary.count("job") == 1
