"""What Django says of a project before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.core.checks import run_checks
from django.core.checks.registry import registry
from django.core.management import call_command
from django.db import connections

from celery_lease.django.checks import sqlite_begins_as_writer

if TYPE_CHECKING:
    from collections.abc import Iterator


def warnings() -> list[str]:
    return [str(found.hint) for found in sqlite_begins_as_writer()]


@pytest.fixture
def second(request: pytest.FixtureRequest) -> Iterator[None]:
    """A SQLite database with options of its own, beside the default one."""
    described: dict[str, Any] = connections.configure_settings(
        {
            "default": connections.settings["default"],
            "second": {"ENGINE": "django.db.backends.sqlite3", "OPTIONS": request.param},
        }
    )["second"]
    connections.settings["second"] = described
    yield
    del connections["second"], connections.settings["second"]


@pytest.mark.usefixtures("database")
def test_settings_of_the_tests_give_no_warning() -> None:
    assert sqlite_begins_as_writer in registry.get_checks()
    assert run_checks() == []


@pytest.mark.parametrize("second", [{}, {"transaction_mode": "DEFERRED"}], indirect=True)
@pytest.mark.usefixtures("second")
def test_sqlite_that_begins_as_a_reader_is_named() -> None:
    assert warnings() == [
        """Set DATABASES['second']["OPTIONS"]["transaction_mode"] = "IMMEDIATE"."""
    ]


@pytest.mark.parametrize(
    "second", [{"transaction_mode": "immediate"}, {"transaction_mode": "EXCLUSIVE"}], indirect=True
)
@pytest.mark.usefixtures("second")
def test_sqlite_that_begins_as_a_writer_is_fine() -> None:
    assert warnings() == []


class Elsewhere:
    """A router that keeps jobs out of the second database."""

    def allow_migrate(self, db: str, app_label: str, **_: Any) -> bool | None:
        return False if (db, app_label) == ("second", "celery_lease") else None


@pytest.mark.parametrize("second", [{}], indirect=True)
@pytest.mark.usefixtures("second")
def test_a_database_without_jobs_may_begin_as_it_likes(settings: Any) -> None:
    settings.DATABASE_ROUTERS = [Elsewhere()]
    assert warnings() == []


@pytest.mark.usefixtures("sqlite_database")
def test_every_change_of_a_model_has_its_migration() -> None:
    call_command("makemigrations", "celery_lease", check=True, dry_run=True, verbosity=0)
