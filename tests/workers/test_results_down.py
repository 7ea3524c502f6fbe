"""Broker and results are often one server: with both down a caller still submits."""

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


@pytest.fixture
def fragile(
    postgres_database: TestDatabase, private_valkey: PrivateValkey, tmp_path: Path
) -> Iterator[Project]:
    """The project with one server for messages and results, which a test may kill."""
    env, diary = environment(postgres_database, private_valkey.url, "celery", tmp_path / "diary")
    with opened({**env, "RESULT_BACKEND": private_valkey.url}, diary) as project:
        yield project


@pytest.mark.slow
def test_a_caller_submits_while_broker_and_results_are_down(
    fragile: Project, private_valkey: PrivateValkey
) -> None:
    private_valkey.kill()
    began = time.monotonic()
    result = fragile.app.note.delay("job")
    assert time.monotonic() - began < 3
    private_valkey.start()
    with fragile.worker(pool="threads"):
        wait_for(lambda: result.job.settled_at, 13, what="end")
    assert result.get(timeout=10) == "job"
    assert fragile.diary.count("job") == 1
