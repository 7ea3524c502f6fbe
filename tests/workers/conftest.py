"""One leased project per test: a database, a broker, a diary, and the app in this process."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from celery import _state

from celery_lease.runtime import runtime_of
from tests.support.waiting import wait_for
from tests.support.worker import Worker, running_worker
from tests.workers.diary import Diary
from tests.workers.dying import STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from celery_lease.job import Event, Job
    from celery_lease.stores.base import JobStore
    from tests.support.databases import TestDatabase
    from tests.support.rabbitmq import RabbitMQ
    from tests.support.valkey import PrivateValkey

APP = "tests.workers.app"


@dataclass
class Project:
    """The project of `tests.workers.app` with an environment of its own.

    Attributes:
        app: The module, imported under this environment.
        store: Its job store, as this process reaches it.
    """

    env: dict[str, str]
    diary: Diary
    app: Any = field(init=False)

    @property
    def store(self) -> JobStore:
        return runtime_of(self.app.app, self.app.note.lease_options).store

    def worker(self, **options: Any) -> AbstractContextManager[Worker]:
        """A worker of this project; see `running_worker`."""
        options = {"queues": (self.env["QUEUE"],), **options}
        return running_worker(APP, env=self.env, **options)

    @contextmanager
    def workers(self, *each: dict[str, Any]) -> Iterator[list[Worker]]:
        """Several workers, started side by side; one per dictionary of options."""
        with ExitStack() as stack, ThreadPoolExecutor(len(each)) as starting:
            entered = [
                starting.submit(stack.enter_context, self.worker(**options)) for options in each
            ]
            yield [worker.result() for worker in entered]

    def job(self, task_id: str) -> Job:
        job = self.store.get(task_id)
        assert job is not None
        return job

    def wait_for_state(self, task_id: str, state: str, timeout: float = 20.0) -> Job:
        wait_for(lambda: self.job(task_id).state == state, timeout, what=f"{task_id} {state}")
        return self.job(task_id)

    def kinds(self, task_id: str) -> list[str]:
        return [event.kind.value for event in self.events(task_id)]

    def events(self, task_id: str) -> list[Event]:
        return self.store.events(self.job(task_id).id)


@contextmanager
def opened(env: dict[str, str], diary: Diary) -> Iterator[Project]:
    """The project, imported anew under `env`, in this process too."""
    project = Project(env, diary)
    with pytest.MonkeyPatch.context() as patch:
        # The tasks of one import are announced to all later apps; they are not theirs.
        patch.setattr(_state, "_on_app_finalizers", set(_state._on_app_finalizers))
        for name, value in env.items():
            patch.setenv(name, value)
        project.app = importlib.reload(importlib.import_module(APP))
        yield project
        project.app.app.close()


def environment(
    database: TestDatabase, broker: str, queue: str, folder: Path
) -> tuple[dict[str, str], Diary]:
    folder.mkdir()
    diary = Diary(folder)
    names = {
        "DJANGO_SETTINGS_MODULE": "tests.django_settings",
        "BROKER_URL": broker,
        "QUEUE": queue,
        "LEASE_STORE": "django://default",
        **database.env,
        **diary.env,
    }
    return names, diary


@pytest.fixture
def redis_project(
    postgres_database: TestDatabase, redis_url: str, tmp_path: Path
) -> Iterator[Project]:
    env, diary = environment(postgres_database, redis_url, "celery", tmp_path / "diary")
    with opened({**env, "RESULT_BACKEND": redis_url}, diary) as project:
        yield project


@pytest.fixture
def rabbit_project(
    postgres_database: TestDatabase, rabbitmq: RabbitMQ, tmp_path: Path
) -> Iterator[Project]:
    env, diary = environment(postgres_database, rabbitmq.url, rabbitmq.queue(), tmp_path / "diary")
    with opened(env, diary) as project:
        yield project


@pytest.fixture(params=STEPS)
def dying_project(
    request: pytest.FixtureRequest,
    postgres_database: TestDatabase,
    private_valkey: PrivateValkey,
    tmp_path: Path,
) -> Iterator[Project]:
    """A project whose first worker dies at that step; results are in a database of their own."""
    env, diary = environment(postgres_database, private_valkey.url, "celery", tmp_path / "diary")
    backend = f"tests.workers.dying:DyingBackend+{private_valkey.url.removesuffix('0')}1"
    env = {**env, "RESULT_BACKEND": backend, "DIE_AT": request.param}
    with opened(env, diary) as project:
        yield project


@pytest.fixture(params=["redis", "rabbit"])
def project(request: pytest.FixtureRequest) -> Project:
    """The project on each broker."""
    return request.getfixturevalue(f"{request.param}_project")
