"""A leased project inside one process: kombu's memory broker, the memory store, a real worker."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from celery import Celery
from celery.app.log import Logging
from celery.contrib.testing.worker import start_worker

from celery_lease import Backoff, LeasedTask
from celery_lease.job import Due
from celery_lease.policy import Options
from celery_lease.runtime import runtime_of
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from celery_lease.job import Job
    from celery_lease.results import LeasedResult
    from celery_lease.stores.base import JobStore

AT_ONCE = Backoff(base=0.001, maximum=0.001, jitter=0)


class _PytestsLogging(Logging):
    """Celery would set up logging for a process that is a worker and nothing else."""

    def setup(self, *_args: Any, **_options: Any) -> bool:
        return False


class Lab:
    """An app of its own, whose tasks are declared inside a test.

    Attributes:
        runs: What tasks noted with `note`, in order.
    """

    def __init__(self, **settings: Any) -> None:
        name = uuid4().hex
        # Names are the tests' own, because kombu keeps one set of queues per process.
        self.app = Celery(name, log=_PytestsLogging, set_as_current=False, fixups=())
        self.app.conf.update(
            broker_url="memory://",
            result_backend="cache+memory://",
            broker_transport_options={"polling_interval": 0.01},
            task_default_queue=name,
            lease_store=f"memory://{name}",
            lease_sweep_interval=0.02,
            lease_backoff=AT_ONCE,
            lease_max_attempts=3,
        )
        self.app.conf.update(settings)
        self.runs: list[Any] = []
        self._worker: Any = None

    def task(self, **options: Any) -> Callable[[Callable[..., Any]], Any]:
        """Declare a leased task, of this app alone; a running worker learns of it."""

        def declare(body: Callable[..., Any]) -> Any:
            name = f"{body.__name__}-{uuid4().hex[:8]}"
            own = {"base": LeasedTask, "shared": False, "name": name, **options}
            declared = self.app.task(**own)(body)
            if self._worker is not None:
                self._worker.consumer.update_strategies()
            return declared

        return declare

    def note(self, what: Any) -> int:
        """Note a run; returns how many there are."""
        self.runs.append(what)
        return len(self.runs)

    @property
    def store(self) -> JobStore:
        task = next(t for t in self.app.tasks.values() if isinstance(t, LeasedTask))
        return runtime_of(self.app, task.lease_options).store

    @contextmanager
    def worker(self, pool: str = "threads") -> Iterator[None]:
        with start_worker(
            self.app, concurrency=2, pool=pool, perform_ping_check=False, loglevel="WARNING"
        ) as worker:
            self._worker = worker
            yield
        self._worker = None

    def unacknowledged(self) -> int:
        """Messages the worker holds without having acknowledged or rejected them."""
        qos = self._worker.consumer.task_consumer.channel.qos
        return len(set(qos._delivered) - set(qos._dirty))

    def delivered(self) -> int:
        """How many messages the worker has begun with so far."""
        return int(self._worker.state.all_total_count[0])

    def deliver_again(self, job: Job) -> None:
        """Another delivery of a job's message, until it has been acknowledged."""
        seen = self.delivered()
        runtime_of(self.app, Options(store=self.app.conf.lease_store)).publisher.publish(
            [Due(job.id, job.message, job.body, 0)]
        )
        wait_for(lambda: self.delivered() > seen, what="delivery")
        wait_for(lambda: not self.unacknowledged(), what="acknowledged message")

    def job(self, result: LeasedResult | str) -> Job:
        job = self.store.get(result if isinstance(result, str) else result.id)
        assert job is not None
        return job

    def kinds(self, result: LeasedResult | str) -> list[str]:
        return [event.kind.value for event in self.store.events(self.job(result).id)]

    def ended(self, result: LeasedResult | str, timeout: float = 10.0) -> Job:
        """The job once it has ended, is settled and no message is held for it."""
        wait_for(lambda: self.job(result).settled_at, timeout, what="settled job")
        wait_for(lambda: not self.unacknowledged(), timeout, what="acknowledged message")
        return self.job(result)

    def outcome(self, task: Any, *args: Any, **options: Any) -> tuple[Job, LeasedResult]:
        """Submit, and wait for the end."""
        result = task.apply_async(args, **options)
        return self.ended(result), result


@pytest.fixture(scope="package")
def package_lab() -> Iterator[Lab]:
    made = Lab()

    @made.task()
    def first() -> None:
        """A worker sweeps the stores of the tasks it knows when it starts."""

    with made.worker():
        yield made
    made.app.close()


@pytest.fixture
def lab(package_lab: Lab) -> Lab:
    """A lab whose worker runs: stopping one takes seconds, so all tests here share it."""
    package_lab.runs = []
    return package_lab


@pytest.fixture
def make_lab() -> Iterator[Callable[..., Lab]]:
    """Labs with settings of their own."""
    labs: list[Lab] = []

    def make(**settings: Any) -> Lab:
        labs.append(Lab(**settings))
        return labs[-1]

    yield make
    for made in labs:
        made.app.close()


@pytest.fixture(autouse=True)
def no_threads_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    loops = ("celery-lease-sweeper",)
    left = [t for t in set(threading.enumerate()) - before if t.name in loops]
    for thread in left:
        thread.join(5)
        assert not thread.is_alive()
