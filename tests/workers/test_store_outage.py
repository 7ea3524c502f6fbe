"""The job store goes away and comes back: nothing is lost, and nothing runs twice unnoticed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from kombu import Connection

from celery_lease.errors import StoreUnavailable
from tests.support.databases import default_database
from tests.support.proxy import proxied
from tests.support.waiting import wait_for
from tests.workers.conftest import environment, opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.support.databases import TestDatabase
    from tests.support.proxy import Proxy
    from tests.support.worker import Worker
    from tests.workers.conftest import Project

POOLS = pytest.mark.parametrize("pool", ["prefork", "threads"])


@pytest.fixture
def link(postgres_database: TestDatabase) -> Iterator[Proxy]:
    """The workers' way to the store; this process has its own."""
    with proxied(postgres_database.url) as proxy:
        yield proxy


@pytest.fixture
def remote(
    postgres_database: TestDatabase, link: Proxy, redis_url: str, tmp_path: Path
) -> Iterator[Project]:
    """A project whose workers reach the store through `link`."""
    database = replace(postgres_database, url=link.url)
    env, diary = environment(database, redis_url, "celery", tmp_path / "diary")
    with opened({**env, "RESULT_BACKEND": redis_url}, diary) as project:
        yield project


def _times(worker: Worker, text: str) -> int:
    return str(worker.log).count(text)


def _holding(project: Project, pool: str) -> AbstractContextManager[Worker]:
    return project.worker(pool=pool, concurrency=1)


def _start(project: Project, task: str = "hold") -> str:
    """A job that is being run; its lease is so long that an outage fits in."""
    task_id: str = getattr(project.app, task).apply_async(("job",), lease_ttl=9).id
    wait_for(lambda: project.diary.count("job"), what="start")
    return task_id


def _assert_succeeded(project: Project, task_id: str, starts: int) -> None:
    project.wait_for_state(task_id, "succeeded", 30)
    wait_for(lambda: project.job(task_id).settled_at, what="settled")
    assert (project.job(task_id).attempts, project.diary.count("job")) == (starts, starts)


@POOLS
def test_a_store_that_is_down_at_the_claim_delays_the_job(
    remote: Project, link: Proxy, pool: str
) -> None:
    with _holding(remote, pool) as worker:
        link.close()
        task_id = remote.app.note.delay("job").id
        worker.wait_log(rf"WARNING.*{task_id} is delivered again in 2 s: store is not available")
        link.open()
        _assert_succeeded(remote, task_id, starts=1)


def test_a_store_that_is_down_at_submit_refuses_the_caller(
    remote: Project, link: Proxy, redis_url: str
) -> None:
    from celery_lease.django.models import Job

    link.close()
    with default_database(link.url), pytest.raises(StoreUnavailable):
        remote.app.note.delay("job")
    with Connection(redis_url) as broker:
        assert broker.default_channel.client.llen("celery") == 0
    assert not Job.objects.exists()


@POOLS
def test_a_short_outage_in_mid_task_changes_nothing(
    remote: Project, link: Proxy, pool: str
) -> None:
    with _holding(remote, pool) as worker:
        task_id = _start(remote)
        link.close()
        wait_for(lambda: _times(worker, "leases could not be renewed") >= 2, what="missed renewals")
        link.open()
        until = remote.job(task_id).lease_until
        wait_for(lambda: remote.job(task_id).lease_until != until, what="renewal")
        remote.diary.release("job")
        _assert_succeeded(remote, task_id, starts=1)


@POOLS
@pytest.mark.parametrize("how", ["close", "freeze"])
def test_an_outage_past_the_trust_window_interrupts_the_body(
    remote: Project, link: Proxy, pool: str, how: str
) -> None:
    with _holding(remote, pool):
        task_id = remote.app.told.delay("job").id
        wait_for(lambda: remote.diary.count("job"), what="start")
        getattr(link, how)()
        wait_for(lambda: remote.diary.count("job:LeaseLost"), what="interrupt")
        {"close": link.open, "freeze": link.thaw}[how]()
        wait_for(lambda: remote.diary.count("job") == 2, 20, what="second start")
        remote.diary.release("job")
        _assert_succeeded(remote, task_id, starts=2)


@POOLS
def test_an_outcome_is_reported_as_soon_as_the_store_is_back(
    remote: Project, link: Proxy, pool: str
) -> None:
    with _holding(remote, pool) as worker:
        task_id = _start(remote)
        link.close()
        remote.diary.release("job")
        worker.wait_log("WARNING.*store is not available for succeed, trying again")
        link.open()
        _assert_succeeded(remote, task_id, starts=1)


@POOLS
def test_an_outcome_that_cannot_be_reported_in_time_runs_again(
    remote: Project, link: Proxy, pool: str
) -> None:
    with _holding(remote, pool) as worker:
        task_id = remote.app.hold.delay("job").id
        wait_for(lambda: remote.diary.count("job"), what="start")
        link.close()
        remote.diary.release("job")
        worker.wait_log("ERROR.*succeed of job .* was not recorded")
        link.open()
        _assert_succeeded(remote, task_id, starts=2)
