"""A broker that loses everything loses no job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_for
from tests.workers.conftest import environment, opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.databases import TestDatabase
    from tests.support.valkey import PrivateValkey
    from tests.workers.conftest import Project

JOBS = 20


@pytest.fixture
def flushable(
    postgres_database: TestDatabase, private_valkey: PrivateValkey, tmp_path: Path
) -> Iterator[Project]:
    env, diary = environment(postgres_database, private_valkey.url, "celery", tmp_path / "diary")
    with opened(env, diary) as project:
        yield project


@pytest.mark.parametrize("running", [False, True], ids=["before-start", "while-running"])
def test_jobs_published_and_unclaimed_run_once_each(
    flushable: Project, private_valkey: PrivateValkey, *, running: bool
) -> None:
    if running:
        with flushable.worker(pool="threads", concurrency=2):
            holds = [flushable.app.hold.delay(f"hold-{n}") for n in range(2)]
            for n in range(2):
                wait_for(lambda n=n: flushable.diary.count(f"hold-{n}"), what="busy worker")
            _flush_and_await(flushable, private_valkey)
        assert [r.duplicate for r in holds] == [False, False]
    else:
        _flush_and_await(flushable, private_valkey)


def _flush_and_await(project: Project, broker: PrivateValkey) -> None:
    results = [project.app.note.delay(f"job-{n}") for n in range(JOBS)]
    assert all(project.job(r.id).publish_count == 1 for r in results)
    with broker.client() as client:
        client.flushall()
    flushed_at = time.monotonic()
    for n in range(2):
        project.diary.release(f"hold-{n}")
    with project.worker(pool="threads"):
        for result in results:
            project.wait_for_state(result.id, "succeeded")
        assert time.monotonic() - flushed_at < 15
    assert [project.diary.count(f"job-{n}") for n in range(JOBS)] == [1] * JOBS
