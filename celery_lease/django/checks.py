"""What `manage.py check` says about a project's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.checks import Warning as CheckWarning
from django.db import connections, router

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.core.checks import CheckMessage

#: Modes in which a transaction is a writer from its beginning.
_WRITER_MODES = ("IMMEDIATE", "EXCLUSIVE")


def sqlite_begins_as_writer(**_: Any) -> list[CheckMessage]:
    """Warn of SQLite databases in which a transaction that has read may fail to submit."""
    return [_warning(alias) for alias in _sqlite_aliases() if _mode(alias) not in _WRITER_MODES]


def _sqlite_aliases() -> Iterator[str]:
    job = apps.get_model("celery_lease", "Job")
    for alias in connections.settings:
        if connections[alias].vendor == "sqlite" and router.allow_migrate_model(alias, job):
            yield alias


def _mode(alias: str) -> str:
    return str(connections[alias].settings_dict["OPTIONS"].get("transaction_mode")).upper()


def _warning(alias: str) -> CheckMessage:
    return CheckWarning(
        f"In the SQLite database {alias!r} a transaction that reads and then submits a job fails "
        "at once, whatever its timeout, when another one has written in between.",
        hint=f'Set DATABASES[{alias!r}]["OPTIONS"]["transaction_mode"] = "IMMEDIATE".',
        id="celery_lease.W001",
    )
