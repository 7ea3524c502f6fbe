"""Deletes the jobs whose retention has ended."""

from __future__ import annotations

import signal
import sys
import threading
from argparse import ArgumentTypeError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand
from django.db import DEFAULT_DB_ALIAS, connections

from celery_lease.django.jobstore import DjangoStore

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterator

#: Seconds for a statement; a batch of large jobs takes longer than a sweeper may wait.
_TIMEOUT = 60.0
#: What a shell reports of a program that ended because of SIGINT.
_INTERRUPTED = 128 + signal.SIGINT


def positive(text: str) -> int:
    """A number of jobs.

    Raises:
        ArgumentTypeError: It is not above 0.
    """
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"{text} is not above 0")
    return number


class Command(BaseCommand):
    """Batches of the store's own `prune`, each in a transaction of its own."""

    help = "Delete settled jobs whose retention has ended, with all that belongs to them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--batch", type=positive, default=500, help="jobs per transaction (default: 500)"
        )
        parser.add_argument("--limit", type=positive, help="jobs at most (default: all)")
        parser.add_argument(
            "--database",
            default=DEFAULT_DB_ALIAS,
            choices=tuple(connections),
            help="alias of the store's database (default: %(default)s)",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Delete until nothing is left, the limit is reached, or Ctrl-C is pressed."""
        store = DjangoStore(options["database"], _TIMEOUT)
        with _interrupt() as interrupted:
            total = self._prune(store, options["batch"], options["limit"], interrupted)
        self._tell(f"{total} deleted in all" + (", interrupted" if interrupted.is_set() else ""))
        if interrupted.is_set():
            sys.exit(_INTERRUPTED)

    def _prune(
        self, store: DjangoStore, batch: int, limit: int | None, interrupted: threading.Event
    ) -> int:
        total = 0
        while not interrupted.is_set():
            size = batch if limit is None else min(batch, limit - total)
            deleted = store.prune(size) if size else 0
            if not deleted:
                break
            total += deleted
            self._tell(f"{deleted} deleted, {total} so far")
        return total

    def _tell(self, line: str) -> None:
        # At once: whoever pipes it watches the progress too.
        self.stdout.write(line)
        self.stdout.flush()


@contextmanager
def _interrupt() -> Iterator[threading.Event]:
    """Whether SIGINT came; it no longer breaks off what is under way."""
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = signal.signal(signal.SIGINT, lambda *_: came.set())
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)
