"""What the demo prints."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from django_example.demo.outcomes import Row

NUMBERS = frozenset({"attempts", "latency", "requests"})


def print_table(console: Console, rows: Sequence[Row]) -> None:
    """Print one line per event."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    for heading in ("event", "tenant", "attempts", "state", "latency", "requests", "once?"):
        table.add_column(heading, no_wrap=True, justify="right" if heading in NUMBERS else "left")
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)


def _cells(row: Row) -> list[str]:
    return [
        row.type,
        row.tenant,
        str(row.attempts),
        row.state,
        "-" if row.seconds is None else f"{row.seconds:.2f} s",
        str(row.requests),
        "[green]yes[/]" if row.is_right else f"[bold red]no: {row.applied} x[/]",
    ]


def print_sum(console: Console, rows: Sequence[Row], expected: int, duplicates: int) -> None:
    """Print the one sentence that matters."""
    right = sum(row.is_right for row in rows)
    requests = sum(row.requests for row in rows)
    console.print(
        f"{expected} events accepted, {duplicates} repeats recognised, {requests} requests on the"
        f" wire, {right} events delivered and applied exactly once at the receiver.",
        style="green" if right == expected else "bold red",
    )


def print_urls(console: Console, base: str, login: str, password: str) -> None:
    """Print where to look, and how to get in."""
    console.print(f"admin    {base}/admin/  (login {login}, password {password})")
    console.print(f"health   {base}/health")
    console.print(f"metrics  {base}/metrics")
