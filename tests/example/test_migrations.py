"""Models and migrations tell the same."""

from __future__ import annotations

import pytest
from django.core.management import call_command


@pytest.mark.usefixtures("sqlite_database")
def test_every_change_of_a_model_has_its_migration() -> None:
    call_command("makemigrations", "webhooks", "watch", check=True, dry_run=True, verbosity=0)
