"""The demo's child processes: each in a group of its own, and none left behind."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

START_SECONDS = 10
STOP_SECONDS = 25
LOG_TAIL = 4000


class Child:
    """One running process and whatever it starts.

    Args:
        arguments: What follows ``python -m``.
        log: File that takes its output.
        environment: Its whole environment.
        fds: Open files that it inherits under their numbers.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        fds: Sequence[int] = (),
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own modules
                [sys.executable, "-m", *arguments],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=fds,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The first process, whose id is also that of the group."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Tell whether the first process is gone."""
        return self._process.poll() is not None

    def tail(self) -> str:
        """Return the end of its output."""
        return self.log.read_text(errors="replace")[-LOG_TAIL:]

    def stop(self) -> None:
        """Ask it to end, and make the whole group end if it takes too long."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End every process of the group at once, as a machine that dies would."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


@dataclass
class Household:
    """Everything that the demo runs beside itself.

    Attributes:
        folder: Where logs and plans go.
        environment: What the children find in their environment.
    """

    folder: Path
    environment: dict[str, str]
    _children: list[Child] = field(default_factory=list)

    def start(self, name: str, *arguments: str, fds: Sequence[int] = ()) -> Child:
        """Start ``python -m`` with these arguments."""
        child = Child(arguments, self.folder / f"{name}.log", self.environment, fds)
        self._children.append(child)
        return child

    def start_broker(self, port: int) -> Child:
        """Start a Valkey of our own, and return when it takes connections."""
        broker = self.start("broker", "django_example.demo.broker", "--port", str(port))
        wait_until_listening(port, broker)
        return broker

    def start_worker(self) -> Child:
        """Start a Celery worker, whose size is in the settings."""
        return self.start(
            "worker", "celery", "-A", "django_example", "worker", "--loglevel", "INFO"
        )

    def start_web(self, listening: socket.socket) -> Child:
        """Start the web server on a socket that listens already."""
        bind = f"fd://{listening.fileno()}"
        server = ("gunicorn", "django_example.wsgi", "--bind", bind, "--threads", "8")
        return self.start("web", *server, fds=[listening.fileno()])

    def start_receiver(self, listening: socket.socket, database: Path, plan: Path) -> Child:
        """Start the receiving endpoint on a socket that listens already."""
        fd = str(listening.fileno())
        files = ("--database", str(database), "--plan", str(plan))
        return self.start(
            "receiver", "django_example.demo.receiver", "--fd", fd, *files, fds=[int(fd)]
        )

    def stop(self) -> None:
        """Stop all, the last one first; one that does not stop keeps none of the others."""
        try:
            for child in reversed(self._children):
                child.stop()
        finally:
            # Also when a second Ctrl-C cut the waiting short.
            self.kill()

    def kill(self) -> None:
        """End all at once."""
        for child in self._children:
            child.kill()

    def require_alive(self) -> None:
        """Raise if a child has ended that should not.

        Raises:
            RuntimeError: With the end of its output.
        """
        for child in self._children:
            if child.has_ended:
                message = f"{child.log.stem} ended by itself:\n{child.tail()}"
                raise RuntimeError(message)

    def forget(self, child: Child) -> None:
        """Expect no more of a child that was ended on purpose."""
        self._children.remove(child)


def wait_until_listening(port: int, child: Child) -> None:
    """Return when somebody listens on the port.

    Raises:
        RuntimeError: If the child that should ends before, or takes too long.
    """
    pause = threading.Event()
    for _ in range(START_SECONDS * 50):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if child.has_ended or pause.wait(0.02):
            break
    message = f"{child.log.stem} does not listen on port {port}:\n{child.tail()}"
    raise RuntimeError(message)


def listening_socket(port: int = 0) -> socket.socket:
    """Return a socket of this machine only that listens, on any free port if none is given."""
    return socket.create_server(("127.0.0.1", port), backlog=128)


def free_port() -> int:
    """Return a port that nobody listened on a moment ago."""
    with listening_socket() as probe:
        return int(probe.getsockname()[1])


@contextmanager
def household(folder: Path, environment: dict[str, str]) -> Iterator[Household]:
    """Run children until the block ends, however it ends."""
    running = Household(folder, environment)
    try:
        yield running
    finally:
        running.stop()
