from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil
import pytest
from celery import Celery

from tests.support.waiting import wait_for
from tests.support.worker import Worker, running_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.rabbitmq import RabbitMQ

APP = "tests.support.plain_app"


@contextmanager
def client(url: str) -> Iterator[Celery]:
    app = Celery(broker=url, backend=url, set_as_current=False)
    yield app
    app.close()


def _environment(url: str) -> dict[str, str]:
    return {"BROKER_URL": url, "RESULT_BACKEND": url}


def _alive(pids: list[int]) -> list[int]:
    return [p for p in pids if psutil.pid_exists(p) and psutil.Process(p).status() != "zombie"]


def _statuses(worker: Worker) -> set[str]:
    return {psutil.Process(pid).status() for pid in (worker.pid, *worker.children())}


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
def test_runs_tasks_on_every_pool(redis_url: str, pool: str) -> None:
    environment = _environment(redis_url)
    with running_worker(APP, pool=pool, env=environment), client(redis_url) as app:
        result = app.send_task("tests.support.plain_app.add", (2, 3))
        assert result.get(timeout=10) == 5


def test_runs_tasks_of_a_rabbitmq_queue(redis_url: str, rabbitmq: RabbitMQ) -> None:
    queue = rabbitmq.queue()
    environment = {"BROKER_URL": rabbitmq.url, "RESULT_BACKEND": redis_url, "TASK_QUEUE": queue}
    app = Celery(broker=rabbitmq.url, backend=redis_url, set_as_current=False)
    with running_worker(APP, pool="solo", env=environment, queues=[queue]):
        result = app.send_task("tests.support.plain_app.add", (2, 3), queue=queue)
        assert result.get(timeout=10) == 5


def test_kill_ends_parent_and_pool_in_mid_task(redis_url: str) -> None:
    with running_worker(APP, env=_environment(redis_url)) as worker, client(redis_url) as app:
        app.send_task("tests.support.plain_app.hold", (60,))
        worker.wait_log("holding")
        everyone = [worker.pid, *worker.children()]
        worker.kill()
        assert len(everyone) == 3
        assert _alive(everyone) == []


def test_stops_and_continues_the_whole_group(redis_url: str) -> None:
    with running_worker(APP, env=_environment(redis_url)) as worker, client(redis_url) as app:
        worker.stop_all()
        wait_for(lambda: _statuses(worker) == {psutil.STATUS_STOPPED}, what="standstill")
        result = app.send_task("tests.support.plain_app.add", (2, 3))
        worker.cont_all()
        assert result.get(timeout=10) == 5


def test_term_lets_the_worker_end_by_itself(redis_url: str) -> None:
    with running_worker(APP, env=_environment(redis_url)) as worker:
        worker.term()
        worker.wait_log("Warm shutdown")
        assert worker.wait_exit() == 0


def test_a_stopped_worker_is_ended_when_the_test_fails(redis_url: str) -> None:
    everyone: list[int] = []
    with pytest.raises(ZeroDivisionError) as failure:
        _fail_with_a_stopped_worker(redis_url, everyone)
    assert len(everyone) == 3
    # The last trace of a killed process goes a moment after its pipe.
    wait_for(lambda: not _alive(everyone), what="their end")
    assert "ready." in failure.value.__notes__[0]


def _fail_with_a_stopped_worker(url: str, everyone: list[int]) -> None:
    with running_worker(APP, env=_environment(url)) as worker:
        everyone += [worker.pid, *worker.children()]
        worker.stop_all()
        raise ZeroDivisionError


def test_a_worker_that_does_not_start_shows_its_log() -> None:
    with (
        pytest.raises(AssertionError, match=r"The module tests\.absent was not found"),
        running_worker("tests.absent", ready_timeout=20),
    ):
        pytest.fail("ran")


def test_the_group_is_not_the_one_of_the_tests(redis_url: str) -> None:
    with running_worker(APP, pool="solo", env=_environment(redis_url)) as worker:
        assert os.getpgid(worker.pid) == worker.pid != os.getpgid(0)
        os.kill(worker.pid, signal.SIGKILL)
        assert worker.wait_exit() == -signal.SIGKILL
