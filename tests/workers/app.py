"""A leased Celery project for the tests that start, stop and kill real workers.

Everything comes from the environment: BROKER_URL, RESULT_BACKEND, LEASE_STORE, QUEUE, and
DIARY, a folder in which each task leaves what it did.
"""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery

from celery_lease import LeasedTask, current_lease
from tests.workers.diary import Diary

app = Celery("leased", broker=os.environ["BROKER_URL"], backend=os.environ.get("RESULT_BACKEND"))
app.conf.update(
    lease_store=os.environ.get("LEASE_STORE", "django://default"),
    task_default_queue=os.environ.get("QUEUE", "celery"),
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=1,
    task_publish_retry_policy={"max_retries": 0},
    lease_ttl=3,
)
if app.conf.broker_url.startswith("redis"):
    app.conf.broker_transport_options = {"socket_timeout": 10}


def _diary() -> Diary:
    return Diary(os.environ["DIARY"])


def _wait_until(done: Any, seconds: float) -> None:
    """Stay in Python, so that an interrupt hits at once."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not done():
        time.sleep(0.01)


@app.task(base=LeasedTask)
def note(name: str) -> str:
    """Leave a line and return."""
    _diary().write(name, current_lease().token)
    return name


@app.task(base=LeasedTask)
def hold(name: str, seconds: float = 60.0) -> str:
    """Leave a line, then stay until `Diary.release(name)` or the time is over."""
    lease = current_lease()
    _diary().write(name, lease.token)
    _wait_until(lambda: _diary().is_released(name), seconds)
    _diary().write(f"{name}:end", lease.token)
    return f"{name}:{lease.attempt}"


@app.task(base=LeasedTask)
def follow(result: Any, name: str) -> Any:
    """A leased follower."""
    _diary().write(name, current_lease().token)
    return result


@app.task
def plain_follow(result: Any, name: str) -> Any:
    """An ordinary follower."""
    _diary().write(name, 0)
    return result


@app.task(base=LeasedTask)
def unstorable(name: str) -> object:
    """Return what JSON cannot hold."""
    _diary().write(name, 0)
    return object()
