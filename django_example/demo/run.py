"""The demo from start to end: start everything, post, watch, show, serve, stop."""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from django.core.management import call_command
from rich.console import Console

from celery_lease.stores.base import JobStore
from django_example.demo import table
from django_example.demo.events import SignedEvent, post_events, prepare_events, write_plan
from django_example.demo.outcomes import Progress, measure_progress, read_rows
from django_example.demo.processes import Child, Household, free_port, household, listening_socket
from django_example.demo.seeding import LOGIN, seed_login, seed_tenants
from django_example.watch.store import job_store

RECEIVER_FILE = Path("django_example-receiver.sqlite3")
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Choices:
    """What the command line says.

    Attributes:
        once: End after the table.
        kill: End the worker by force in the middle.
        port: Of the web server, 0 for any free one.
        patience: Seconds after which what is not delivered counts as lost.
    """

    once: bool = False
    kill: bool = False
    port: int = 0
    patience: float = 80.0


@dataclass(frozen=True)
class Stage:
    """Everything that stands while the demo runs."""

    console: Console
    children: Household
    worker: Child
    store: JobStore
    web: str
    receiver: str
    password: str
    events: list[SignedEvent]

    @property
    def event_ids(self) -> list[str]:
        """The ids of the events of this run."""
        return [event.event_id for event in self.events]


def run_demo(choices: Choices, console: Console) -> int:
    """Run the demo.

    Returns:
        0 if every event was delivered and applied once, 1 otherwise.
    """
    with ExitStack() as stack:
        stack.enter_context(ending_on_signals())
        stage = set_up(choices, console, stack)
        duplicates = post_events(stage.web, stage.events)
        console.print(f"Posted {len(stage.events)} events of two tenants, some of them twice.")
        watch(stage, choices)
        return show_and_serve(stage, choices, duplicates)


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Turn the signals that end a program into an exception that unwinds what was started."""

    def end(_: int, __: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    # SIGINT too: a shell that starts a program in the background has it ignore that one.
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, end) for number in ending]
    try:
        yield
    finally:
        for number, handler in zip(ending, before, strict=True):
            signal.signal(number, handler)


def set_up(choices: Choices, console: Console, stack: ExitStack) -> Stage:
    """Bring up the database, the tenants and all processes."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="django_example-")))
    children = stack.enter_context(household(folder, dict(os.environ)))
    receiver_socket = stack.enter_context(listening_socket())
    web_socket = stack.enter_context(listening_socket(choices.port))
    receiver = _base_url(receiver_socket.getsockname()[1])
    with console.status("Preparing database, broker and servers …"):
        call_command("migrate", verbosity=0)
        _provide_broker(children)
        tenants, password = seed_tenants(receiver), seed_login()
        events = prepare_events(tenants)
        write_plan(folder / "plan.json", tenants, events)
        children.start_receiver(receiver_socket, RECEIVER_FILE, folder / "plan.json")
        children.start_web(web_socket)
        worker = children.start_worker()
    return Stage(
        console=console,
        children=children,
        worker=worker,
        store=job_store(),
        web=_base_url(web_socket.getsockname()[1]),
        receiver=receiver,
        password=password,
        events=events,
    )


def _base_url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _provide_broker(children: Household) -> None:
    if "BROKER_URL" not in children.environment:
        port = free_port()
        children.environment["BROKER_URL"] = f"redis://127.0.0.1:{port}/0"
        children.start_broker(port)


def watch(stage: Stage, choices: Choices) -> None:
    """Show progress until every delivery has ended, and do the killing if that is asked for."""
    deadline = time.monotonic() + choices.patience
    to_kill = choices.kill
    with stage.console.status("Delivering …") as status:
        while (progress := _measured(stage)).ended < len(stage.events):
            status.update(_sentence(progress, len(stage.events)))
            if to_kill and progress.in_flight and progress.delivered:
                to_kill = False
                kill_worker(stage, progress)
            if time.monotonic() > deadline:
                return
            threading.Event().wait(POLL_SECONDS)


def _measured(stage: Stage) -> Progress:
    stage.children.require_alive()
    return measure_progress(stage.store, stage.event_ids)


def _sentence(progress: Progress, expected: int) -> str:
    return f"Delivered {progress.delivered} of {expected}, {progress.in_flight} in flight …"


def kill_worker(stage: Stage, progress: Progress) -> None:
    """End the worker as a machine that dies would, and start another one."""
    stage.children.forget(stage.worker)
    stage.worker.kill()
    stage.console.print(
        f"Killed the worker (SIGKILL) with {progress.in_flight} deliveries in flight and"
        f" {progress.delivered} done; a new one takes over when their leases end."
    )
    stage.children.start_worker()


def show_and_serve(stage: Stage, choices: Choices, duplicates: int) -> int:
    """Print the table, then serve until the user has seen enough."""
    rows = read_rows(stage.store, stage.event_ids, stage.receiver)
    table.print_table(stage.console, rows)
    table.print_sum(stage.console, rows, len(stage.events), duplicates)
    table.print_urls(stage.console, stage.web, LOGIN, stage.password)
    if not choices.once:
        serve(stage)
    all_right = len(rows) == len(stage.events) and all(row.is_right for row in rows)
    return 0 if all_right else 1


def serve(stage: Stage) -> None:
    """Go on until Ctrl-C, or until a process ends that should not."""
    stage.console.print("Serving until Ctrl-C.")
    try:
        while True:
            stage.children.require_alive()
            threading.Event().wait(1)
    except KeyboardInterrupt:
        stage.console.print("Stopping.")
