"""Results are a convenience: while their server is down jobs are submitted, run and handed over."""

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


@pytest.fixture
def separate(
    postgres_database: TestDatabase, redis_url: str, private_valkey: PrivateValkey, tmp_path: Path
) -> Iterator[Project]:
    """The project with a server of its own for results, which a test may kill."""
    env, diary = environment(postgres_database, redis_url, "celery", tmp_path / "diary")
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


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_hand_over_waits_for_the_result_backend(
    separate: Project, private_valkey: PrivateValkey, pool: str
) -> None:
    with separate.worker(pool=pool) as worker:
        link = separate.app.follow.s("follower")
        result = separate.app.hold.apply_async(("job",), link=link)
        wait_for(lambda: separate.diary.count("job"), what="start")
        private_valkey.kill()
        separate.diary.release("job")
        worker.wait_log("ConnectionError.*Connection refused")
        private_valkey.start()
        wait_for(lambda: result.job.settled_at, 30, what="settled")
        wait_for(lambda: separate.diary.count("follower"), what="follower")
        assert result.get(timeout=10) == "job:1"
    assert [separate.diary.count(name) for name in ("job", "follower")] == [1, 1]
