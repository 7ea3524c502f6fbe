"""A leased Celery project for the tests that start, stop and kill real workers.

Everything comes from the environment: BROKER_URL, RESULT_BACKEND, LEASE_STORE, QUEUE, and
DIARY, a folder in which each task leaves what it did.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from celery import Celery
from kombu import Exchange, Queue

from celery_lease import LeasedTask, PermanentError, current_lease, signals
from celery_lease.errors import Interrupt, StaleToken
from tests.workers.diary import Diary

if TYPE_CHECKING:
    from celery_lease.lease import Lease

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
if "EXCHANGE" in os.environ:
    # A queue behind a topic exchange: what routes to it is the broker's own data.
    topics = Exchange(os.environ["EXCHANGE"], type="topic")
    app.conf.task_queues = [Queue(os.environ["QUEUE"], topics, routing_key="jobs")]


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


# -- tasks under duress -------------------------------------------------------


@app.task(base=LeasedTask, lease_backoff=[0.1], lease_max_attempts=2)
def told(name: str, seconds: float = 60.0) -> str:
    """As `hold`, and leave a line for the interrupt that ended it."""
    try:
        return hold.run(name, seconds)
    except Interrupt as interrupt:
        _diary().write(f"{name}:{type(interrupt).__name__}", current_lease().token)
        raise


@app.task(base=LeasedTask, lease_backoff=[0.1], lease_max_attempts=2)
def query(name: str) -> None:
    """Ask the database all the time, so that an interrupt hits inside its driver."""
    from django.contrib.auth.models import Group
    from django.db import transaction

    _diary().write(name, current_lease().token)
    while not _diary().is_released(name):
        with transaction.atomic():
            Group.objects.count()


@app.task(base=LeasedTask)
def deaf(name: str) -> str:
    """As `hold`, but return as if nothing had been said."""
    with suppress(Interrupt):
        return hold.run(name)
    return f"{name}:{current_lease().attempt}"


@app.task(base=LeasedTask, lease_max_attempts=2, lease_backoff=[0.1])
def swallow(name: str) -> None:
    """Go on for ever, whatever is raised."""
    _diary().write(name, current_lease().token)
    while not _diary().is_released(name):
        with suppress(BaseException):
            _wait_until(lambda: _diary().is_released(name), 60.0)


@app.task(base=LeasedTask, lease_max_attempts=2, lease_backoff=[0.1])
def stuck(name: str, seconds: float) -> None:
    """Stay in one call to C, where no interrupt reaches."""
    _diary().write(name, current_lease().token)
    time.sleep(seconds)
    _diary().write(f"{name}:end", current_lease().token)


@app.task(base=LeasedTask)
def busy(name: str, seconds: float) -> None:
    """Keep the interpreter busy in Python."""
    _diary().write(name, current_lease().token)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(100))
    _diary().write(f"{name}:end", current_lease().token)


@app.task(base=LeasedTask)
def shielded(name: str, *, by_commit: bool = False) -> None:
    """Leave a line when the lease is lost behind a shield, and another when it opens."""
    lease = current_lease()
    shield = lease.commit() if by_commit else lease.shield()
    try:
        with shield:
            _diary().write(name, lease.token)
            _wait_until(lambda: lease.lost, 60.0)
            _diary().write(f"{name}:held back", lease.token)
    except (Interrupt, StaleToken) as raised:
        _diary().write(f"{name}:{type(raised).__name__}", lease.token)
        raise


@app.task(base=LeasedTask)
def check(name: str) -> None:
    """Ask the lease again and again; leave a line for what it says before and at the end."""
    lease = current_lease()
    _diary().write(f"{name}:{lease.lost}:{2 < lease.remaining() <= 3}", lease.token)
    try:
        with lease.shield():
            _wait_until(lambda: _checked(lease), 60.0)
    except Interrupt as interrupt:
        _diary().write(f"{name}:{type(interrupt).__name__}:{lease.lost}", lease.token)
        raise


def _checked(lease: Lease) -> bool:
    lease.check()
    return False


@app.task(base=LeasedTask, lease_max_attempts=3, lease_backoff=[0.1])
def kill_oneself(name: str) -> None:
    """Take the pool's process down."""
    _diary().write(name, current_lease().token)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(base=LeasedTask, lease_max_attempts=2, lease_backoff=[0.1], time_limit=1)
def overlong(name: str) -> None:
    """Run into Celery's hard time limit."""
    hold.run(name)


@app.task(base=LeasedTask)
def effect(name: str) -> str:
    """Write a row of one's own and stay in the transaction until released."""
    from django.contrib.auth.models import Group

    lease = current_lease()
    try:
        with lease.commit() as done:
            Group.objects.create(name=f"{name}:{lease.attempt}")
            done.result = hold.run(name)
    except (Interrupt, StaleToken):
        _diary().write(f"{name}:refused", lease.token)
        raise
    return done.result


@app.task(base=LeasedTask)
def linger(name: str) -> str:
    """Return at once; the hand-over waits for `Diary.release(name)`."""
    return note.run(name)


@signals.job_succeeded.connect
def _linger(sender: Any, job: Any, **_: Any) -> None:
    if sender.name == linger.name:
        name = f"handover-{job.id}"
        _diary().write(name, job.token)
        _wait_until(lambda: _diary().is_released(name), 60.0)


@app.task(base=LeasedTask)
def give_up(name: str) -> None:
    """Fail for good."""
    _diary().write(name, current_lease().token)
    raise PermanentError(code="NO_USE")


@app.task
def plain_note(name: str) -> None:
    """An ordinary task."""
    _diary().write(name, 0)


if "DIE_AT" in os.environ:
    # Connects the receivers that make a worker die.
    import tests.workers.dying  # noqa: F401


# -- tasks with keys and with bad manners -------------------------------------


@app.task(base=LeasedTask, lease_key="{key}")
def keyed(key: str, amount: int) -> str:
    """One operation per key."""
    del amount
    return note.run(key)


class KeywordOnly(Exception):
    """Cannot be made from its arguments."""

    def __init__(self, *, reason: str) -> None:
        super().__init__(reason)


class Unpicklable(Exception):
    """Cannot leave its process."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.held = lambda: None


class Hostile(Exception):
    """Cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@app.task(base=LeasedTask, lease_max_attempts=1)
def break_reader(kind: str) -> None:
    """Raise what is hard to report."""
    if kind == "KeywordOnly":
        raise KeywordOnly(reason="why")
    raise {"Unpicklable": Unpicklable, "Hostile": Hostile}[kind]("why")


@app.task(base=LeasedTask, lease_max_attempts=2, lease_backoff=[0.1])
def leave(name: str) -> None:
    """Take the process down in Python's own way."""
    _diary().write(name, current_lease().token)
    raise SystemExit(3)


# -- followers ----------------------------------------------------------------


@app.task(base=LeasedTask)
def mourn(task_id: str) -> None:
    """A leased errback."""
    _diary().write(f"mourn {task_id}", current_lease().token)


@app.task(base=LeasedTask, lease_key="{name}")
def held(name: str) -> str:
    """As `hold`, one operation per name."""
    return hold.run(name)


@app.task(base=LeasedTask, lease_retention=0.5)
def brief(name: str) -> str:
    """As `note`, but soon to be pruned."""
    return note.run(name)


# -- odd values ---------------------------------------------------------------


@app.task(base=LeasedTask)
def echo(value: Any) -> Any:
    """Return it."""
    return value


@app.task(base=LeasedTask)
def mixed() -> dict[Any, Any]:
    """Return keys that have no order among themselves."""
    return {1: "one", "two": 2}


@app.task(base=LeasedTask, lease_max_attempts=1)
def shout(word: str) -> None:
    """Raise it."""
    raise RuntimeError(word)
