"""Wrong settings end a worker at once and say why; wrong values end no worker."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.worker import ROOT

if TYPE_CHECKING:
    from tests.workers.conftest import Project


def _worker(env: dict[str, str], pool: str = "prefork") -> subprocess.CompletedProcess[str]:
    """A worker that is expected to end by itself, soon."""
    command = [sys.executable, "-m", "celery", "-A", "tests.workers.app", "worker"]
    return subprocess.run(
        [*command, "-P", pool, "-c", "1", "-l", "INFO"],
        cwd=ROOT,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"LEASE_STORE": ""}, 'lease_store is not set; write lease_store = "django://default"'),
        ({"LEASE_STORE": "postgres"}, "'postgres' is not a store URL; write lease_store ="),
        ({"LEASE_STORE": "http://[::1"}, "is not a store URL; write lease_store ="),
        ({"LEASE_STORE": "django://nowhere"}, "names no database; valid are django://default"),
        ({"LEASE_STORE": "memory://"}, "cannot be shared by a prefork pool"),
        ({"DJANGO_SETTINGS_MODULE": ""}, "set DJANGO_SETTINGS_MODULE"),
    ],
    ids=lambda value: None if isinstance(value, str) else next(iter(value.values())) or "empty",
)
def test_a_worker_with_a_wrong_store_ends_at_once_and_says_why(
    redis_project: Project, changes: dict[str, str], said: str
) -> None:
    began = time.monotonic()
    ended = _worker({**redis_project.env, **changes})
    assert said in ended.stdout
    assert ended.returncode != 0
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_other_pools_say_so_too(redis_project: Project, pool: str) -> None:
    ended = _worker({**redis_project.env, "LEASE_STORE": "postgres"}, pool)
    assert "is not a store URL" in ended.stdout
    assert ended.returncode != 0


def test_a_result_that_json_cannot_hold_ends_no_worker(project: Project) -> None:
    with project.worker() as worker:
        result = project.app.unstorable.delay("odd")
        job = project.wait_for_state(result.id, "succeeded")
        worker.wait_log("cannot be stored as JSON, its repr is")
        after = project.app.note.delay("after")
        project.wait_for_state(after.id, "succeeded")
    assert job.result is not None
    assert job.result.startswith('"<object object at')
    assert project.diary.count("odd") == 1


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_an_exception_that_breaks_its_reader_ends_no_worker(
    redis_project: Project, pool: str
) -> None:
    with redis_project.worker(pool=pool) as worker:
        for kind in ("KeywordOnly", "Unpicklable", "Hostile"):
            result = redis_project.app.break_reader.delay(kind)
            job = redis_project.wait_for_state(result.id, "dead")
            assert job.failure is not None
            assert job.failure.name.endswith(kind)
        after = redis_project.app.note.delay("after")
        redis_project.wait_for_state(after.id, "succeeded")
        assert worker.children() or pool == "threads"


def test_an_exit_in_a_pools_process_is_a_counted_attempt(redis_project: Project) -> None:
    with redis_project.worker(concurrency=1):
        result = redis_project.app.leave.delay("exit")
        job = redis_project.wait_for_state(result.id, "dead", 40)
        after = redis_project.app.note.delay("after")
        redis_project.wait_for_state(after.id, "succeeded")
    assert (job.attempts, redis_project.diary.count("exit")) == (2, 2)
