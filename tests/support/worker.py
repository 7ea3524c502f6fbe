"""A Celery worker in a process group of its own, as a context manager."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING
from uuid import uuid4

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]


class WorkerLog:
    """The lines a worker has written so far, read by a thread until its last process is gone."""

    def __init__(self, stream: IO[str]) -> None:
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._closed = False
        self._reader = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._reader.start()

    def __str__(self) -> str:
        with self._changed:
            return "".join(self._lines)

    def wait(self, pattern: str, timeout: float) -> re.Match[str]:
        """Waits for the first line, old or new, in which `pattern` is found.

        Raises:
            AssertionError: no such line within `timeout` seconds, or the worker ended before.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._search(pattern) or self._closed, timeout)
            found = self._search(pattern)
        if found is None:
            state = "ended" if self._closed else "is running"
            message = f"no line like {pattern!r} within {timeout} s, the worker {state}\n{self}"
            raise AssertionError(message)
        return found

    def join(self, timeout: float) -> None:
        """Waits until no process holds the other end any more."""
        self._reader.join(timeout)

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._add(line)
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _add(self, line: str) -> None:
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def _search(self, pattern: str) -> re.Match[str] | None:
        return next((m for line in self._lines if (m := re.search(pattern, line))), None)


class Worker:
    """A running worker; signals go to its whole process group unless said otherwise."""

    def __init__(self, process: subprocess.Popen[str], name: str) -> None:
        assert process.stdout is not None
        self.pid = process.pid
        self.name = name
        self.log = WorkerLog(process.stdout)
        self._process = process

    def wait_log(self, pattern: str, timeout: float = 10.0) -> re.Match[str]:
        return self.log.wait(pattern, timeout)

    def children(self) -> list[int]:
        """The pids of the pool's processes."""
        return [child.pid for child in psutil.Process(self.pid).children(recursive=True)]

    def stop_all(self) -> None:
        """SIGSTOP: the machine that went away and will come back."""
        self._signal(signal.SIGSTOP)

    def cont_all(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and waits until nothing of the group runs. Safe to repeat."""
        self._signal(signal.SIGKILL)
        self._process.wait(timeout=10)
        self.log.join(timeout=10)

    def term(self) -> None:
        """SIGTERM to the parent alone, as a service manager does: a warm shutdown begins."""
        self._process.terminate()

    def wait_exit(self, timeout: float = 20.0) -> int:
        """The exit code, once the worker has ended by itself."""
        return self._process.wait(timeout)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


@contextmanager
def running_worker(  # noqa: PLR0913  # each is an option of the worker's command line
    app_module: str,
    *,
    pool: str = "prefork",
    concurrency: int = 2,
    env: Mapping[str, str] | None = None,
    queues: Sequence[str] = (),
    loglevel: str = "INFO",
    arguments: Sequence[str] = (),
    ready_timeout: float = 30.0,
) -> Iterator[Worker]:
    """Runs `python -m celery -A app_module worker`, yields it when it is ready.

    Args:
        app_module: dotted name, importable from the root of the checkout.
        pool: prefork, threads, gevent or solo.
        concurrency: processes, threads or greenlets.
        env: added to this process's environment. DJANGO_SETTINGS_MODULE is not inherited,
            because it alone turns a worker into a Django one.
        queues: the default queue when empty.
        loglevel: INFO or DEBUG; the line that says "ready" is at INFO.
        arguments: further options of the worker.
        ready_timeout: seconds.

    Raises:
        AssertionError: not ready in time; carries the log.
    """
    name = f"worker-{uuid4().hex[:8]}"
    command = _command(app_module, name, pool, concurrency, loglevel)
    selected = ["-Q", ",".join(queues)] if queues else []
    worker = _start([*command, *selected, *arguments], name, _environment(env or {}))
    try:
        worker.wait_log(r"@\S+ ready\.", ready_timeout)
        with _log_attached(worker):
            yield worker
    finally:
        worker.kill()


@contextmanager
def _log_attached(worker: Worker) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(f"log of {worker.name}:\n{worker.log}")
        raise


def _command(app: str, name: str, pool: str, concurrency: int, loglevel: str) -> list[str]:
    python = [sys.executable, "-m", "celery", "-A", app, "worker", "-n", f"{name}@%h"]
    return [*python, "-P", pool, "-c", str(concurrency), "-l", loglevel]


def _environment(added: Mapping[str, str]) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    return {**inherited, "PYTHONUNBUFFERED": "1", **added}


def _start(command: list[str], name: str, env: dict[str, str]) -> Worker:
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    return Worker(process, name)
