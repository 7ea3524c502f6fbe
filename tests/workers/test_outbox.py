"""Between the commit and the broker anything may die: the row in the database is the outbox."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_for
from tests.support.worker import ROOT
from tests.workers.conftest import environment, opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.databases import TestDatabase
    from tests.support.valkey import PrivateValkey
    from tests.workers.conftest import Project

#: A job that was accepted is held for its caller to publish so long, and then swept.
HELD = 10.0

SUBMIT_AND_DIE = """
import os
import django
django.setup()
from django.db import connection, transaction
from tests.workers import app
with transaction.atomic():
    transaction.on_commit(lambda: os._exit(9))
    app.note.apply_async(("job",), task_id="orphan")
"""


@pytest.fixture
def fragile(
    postgres_database: TestDatabase, private_valkey: PrivateValkey, tmp_path: Path
) -> Iterator[Project]:
    """A project whose broker may be killed."""
    env, diary = environment(postgres_database, private_valkey.url, "celery", tmp_path / "diary")
    with opened(env, diary) as project:
        yield project


def _submit_and_die(project: Project) -> float:
    """When the submitting process had died, right after its commit."""
    env = {**os.environ, **project.env}
    ended = subprocess.run([sys.executable, "-c", SUBMIT_AND_DIE], cwd=ROOT, env=env, check=False)
    assert ended.returncode == 9
    return time.monotonic()


@pytest.mark.slow
def test_a_submitter_killed_after_its_commit_loses_nothing(redis_project: Project) -> None:
    redis_project.app.note.apply_async(("first",), task_id="first")
    with redis_project.worker():
        redis_project.wait_for_state("first", "succeeded")
        died_at = _submit_and_die(redis_project)
        assert redis_project.job("orphan").publish_count == 0
        redis_project.wait_for_state("orphan", "succeeded")
        assert time.monotonic() - died_at < HELD + 2
    assert redis_project.diary.count("job") == 1


@pytest.mark.slow
def test_a_broker_that_is_down_is_no_error_for_the_caller(
    fragile: Project, private_valkey: PrivateValkey
) -> None:
    first = fragile.app.note.delay("first")
    with fragile.worker() as worker:
        fragile.wait_for_state(first.id, "succeeded")
        private_valkey.kill()
        began = time.monotonic()
        result = fragile.app.note.delay("job")
        assert time.monotonic() - began < 5
        assert fragile.job(result.id).state == "pending"
        worker.wait_log("[Cc]onnection.*(lost|refused)", 20)
        private_valkey.start()
        fragile.wait_for_state(result.id, "succeeded", 30)
    assert fragile.diary.count("job") == 1


@pytest.mark.slow
def test_an_outage_of_the_broker_is_healed_as_soon_as_it_is_over(
    fragile: Project, private_valkey: PrivateValkey
) -> None:
    private_valkey.kill()
    result = fragile.app.note.delay("job")
    submitted_at = time.monotonic()
    private_valkey.start()
    with fragile.worker():
        fragile.wait_for_state(result.id, "succeeded")
        assert time.monotonic() - submitted_at < HELD + 2
    wait_for(lambda: fragile.job(result.id).terminal, what="end")
    assert fragile.diary.count("job") == 1
