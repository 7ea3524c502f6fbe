"""The outbox on SQLite: one writer at a time, and a worker beside the caller."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from django.db import transaction
from kombu import Connection

from tests.support.waiting import wait_for
from tests.support.worker import ROOT
from tests.workers.conftest import environment, opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.databases import TestDatabase
    from tests.workers.conftest import Project

#: A caller that dies when its transaction is committed and nothing was published yet.
DYING_CALLER = """
import os
import django
django.setup()
from django.db import transaction
from tests.workers import app
with transaction.atomic():
    transaction.on_commit(lambda: os._exit(9))
    app.note.apply_async(("orphan",), task_id="orphan")
"""


@pytest.fixture
def project(sqlite_database: TestDatabase, redis_url: str, tmp_path: Path) -> Iterator[Project]:
    env, diary = environment(sqlite_database, redis_url, "celery", tmp_path / "diary")
    with opened({**env, "RESULT_BACKEND": redis_url}, diary) as project:
        yield project


def _published(project: Project) -> int:
    with Connection(project.env["BROKER_URL"]) as broker:
        length: int = broker.default_channel.client.llen(project.env["QUEUE"])
    return length


def test_jobs_and_messages_follow_the_transaction(project: Project) -> None:
    with transaction.atomic():
        kept = project.app.note.delay("kept")
        with transaction.atomic():
            undone = project.app.note.delay("undone")
            transaction.set_rollback(True)
        assert _published(project) == 0
    with transaction.atomic():
        lost = project.app.note.delay("lost")
        transaction.set_rollback(True)
    assert [bool(project.store.get(r.id)) for r in (kept, undone, lost)] == [True, False, False]
    assert _published(project) == 1


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_beside_a_busy_caller_and_one_that_dies(project: Project, pool: str) -> None:
    with project.worker(pool=pool):
        env = {**os.environ, **project.env}
        caller = [sys.executable, "-c", DYING_CALLER]
        assert subprocess.run(caller, cwd=ROOT, env=env, check=False).returncode == 9
        results = [project.app.note.delay(f"job-{n}") for n in range(20)]
        for result in results:
            wait_for(lambda one=result: one.job.settled_at, 20, what="settled")
        project.wait_for_state("orphan", "succeeded", 13)
    names = ["orphan", *(f"job-{n}" for n in range(20))]
    assert [project.diary.count(name) for name in names] == [1] * len(names)
