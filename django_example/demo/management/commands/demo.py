"""``python -m django_example demo``."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console

from django_example.demo.run import Choices, run_demo

# What a shell reports for a program that Ctrl-C has ended.
INTERRUPTED = 130


class Command(BaseCommand):
    """Runs the demo."""

    help = "Run the whole product on this machine: post signed events and watch them arrive once."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("--once", action="store_true", help="end after the table")
        parser.add_argument("--kill", action="store_true", help="kill the worker in the middle")
        parser.add_argument("--port", type=int, default=0, help="of the web server; any by default")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run until the end, and fail if an event was lost or applied twice."""
        choices = Choices(once=options["once"], kill=options["kill"], port=options["port"])
        try:
            failed = run_demo(choices, Console())
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        if failed:
            message = "Not every event was delivered and applied exactly once."
            raise CommandError(message)
