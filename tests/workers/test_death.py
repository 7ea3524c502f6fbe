"""A dead worker's job runs elsewhere soon; a zombie's write is refused and recorded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.workers.conftest import Project

TTL = 3


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_killed_workers_job_starts_again_within_its_lease_and_a_second(
    project: Project, pool: str
) -> None:
    with project.worker(pool=pool) as doomed:
        result = project.app.hold.delay("job")
        wait_for(lambda: project.diary.count("job") == 1, what="first start")
        with project.worker(pool=pool):
            killed_at = time.monotonic()
            doomed.kill()
            wait_for(lambda: project.diary.count("job") == 2, 20, what="second start")
            assert time.monotonic() - killed_at < TTL + 1.5
            project.diary.release("job")
            project.wait_for_state(result.id, "succeeded")
