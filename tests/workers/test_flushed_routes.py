"""A broker that loses its routes as well loses no job."""

from __future__ import annotations

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

JOBS = 5


@pytest.fixture
def routed(
    postgres_database: TestDatabase, private_valkey: PrivateValkey, tmp_path: Path
) -> Iterator[Project]:
    """The project with a queue behind a topic exchange, on a broker that a test may flush."""
    env, diary = environment(postgres_database, private_valkey.url, "celery", tmp_path / "diary")
    with opened({**env, "EXCHANGE": "topics"}, diary) as project:
        yield project


def test_a_queue_behind_a_topic_exchange_is_served_after_a_flush(
    routed: Project, private_valkey: PrivateValkey
) -> None:
    with routed.worker(concurrency=1), private_valkey.client() as client:
        routed.app.hold.delay("blocker")
        wait_for(lambda: routed.diary.count("blocker"), what="busy worker")
        names = [f"job-{n}" for n in range(JOBS)]
        for name in names:
            routed.app.note.delay(name)
        client.flushall()
        later = routed.app.note.delay("later")
        routed.diary.release("blocker")
        for name in (*names, "later"):
            wait_for(lambda name=name: routed.diary.count(name), 15, what=name)
        wait_for(lambda: later.job.settled_at, what="settled")
    assert [routed.diary.count(name) for name in names] == [1] * JOBS
