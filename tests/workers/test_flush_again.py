"""A broker that loses everything while it is used, more than once, loses no job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_lease.publisher import EPOCH_KEY
from tests.support.waiting import wait_for
from tests.workers.conftest import environment, opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.databases import TestDatabase
    from tests.support.valkey import PrivateValkey
    from tests.workers.conftest import Project

NAMES = [f"job-{n}" for n in range(20)]


@pytest.fixture
def flushable(
    postgres_database: TestDatabase, private_valkey: PrivateValkey, tmp_path: Path
) -> Iterator[Project]:
    env, diary = environment(postgres_database, private_valkey.url, "celery", tmp_path / "diary")
    with opened(env, diary) as project:
        yield project


def _submit(project: Project, names: list[str]) -> None:
    for name in names:
        project.app.note.apply_async((name,), task_id=name)


def _await_all(project: Project) -> None:
    for name in NAMES:
        project.wait_for_state(name, "succeeded", 15)
    assert [project.diary.count(name) for name in NAMES] == [1] * len(NAMES)


def test_a_worker_of_other_queues_publishes_what_was_lost(
    flushable: Project, private_valkey: PrivateValkey
) -> None:
    _submit(flushable, NAMES)
    with private_valkey.client() as client, flushable.worker(pool="threads", queues=("other",)):
        for _ in range(2):
            wait_for(lambda: client.llen("celery") == len(NAMES), what="messages")
            wait_for(lambda: client.exists(EPOCH_KEY), what="epoch")
            wait_for(lambda: _noted() == len(NAMES), what="notes")
            client.flushall()
        wait_for(lambda: client.llen("celery") == len(NAMES), what="messages")
        with flushable.worker(pool="threads"):
            _await_all(flushable)


def _noted() -> int:
    """Jobs whose message is known to have left."""
    from celery_lease.django.models import Job

    return Job.objects.exclude(published_epoch="").count()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_flushes_between_submissions_and_runs(
    flushable: Project, private_valkey: PrivateValkey, pool: str
) -> None:
    with private_valkey.client() as client, flushable.worker(pool=pool):
        for start in range(0, len(NAMES), 4):
            _submit(flushable, NAMES[start : start + 4])
            client.flushall()
        _await_all(flushable)


def test_a_broker_that_is_killed_and_comes_back_empty(
    flushable: Project, private_valkey: PrivateValkey
) -> None:
    with flushable.worker(concurrency=1):
        flushable.app.hold.delay("blocker")
        wait_for(lambda: flushable.diary.count("blocker"), what="busy worker")
        _submit(flushable, NAMES)
        private_valkey.kill()
        flushable.diary.release("blocker")
        private_valkey.start()
        _await_all(flushable)
