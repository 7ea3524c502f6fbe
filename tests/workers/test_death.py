"""A dead worker's job runs elsewhere, soon after the end of its lease."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.workers.conftest import Project

TTL = 3
RUNS = 10


def _start_jobs(project: Project) -> list[str]:
    jobs = [project.app.hold.delay(f"job-{n}").id for n in range(RUNS)]
    wait_for(lambda: len(_starts(project)) == RUNS, 20, what="first starts")
    return jobs


def _starts(project: Project) -> list[str]:
    return [e.name for e in project.diary.entries() if not e.name.endswith(":end")]


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_ten_killed_workers_jobs_start_again_within_their_lease_and_a_second(
    project: Project, pool: str
) -> None:
    one_job_each = {"pool": pool, "concurrency": 1}
    with project.workers(*[one_job_each] * RUNS) as doomed:
        jobs = _start_jobs(project)
        with project.worker(pool=pool, concurrency=RUNS):
            killed_at = time.monotonic()
            for worker in doomed:
                worker.kill()
            wait_for(lambda: len(_starts(project)) == 2 * RUNS, 20, what="second starts")
            assert time.monotonic() - killed_at < TTL + 1.5
            for n, job in enumerate(jobs):
                project.diary.release(f"job-{n}")
                assert project.wait_for_state(job, "succeeded").attempts == 2
    assert sorted(_starts(project)) == sorted(2 * [f"job-{n}" for n in range(RUNS)])
