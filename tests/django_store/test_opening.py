"""A store that cannot be opened says what to do."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.apps import apps

from celery_lease.errors import ConfigurationError
from celery_lease.stores import open_store
from tests.support.worker import ROOT

OPEN = "from celery_lease.stores import open_store; open_store('django://default')"


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("", "set DJANGO_SETTINGS_MODULE"),
        (
            "from django.conf import settings; settings.configure()",
            "call django.setup() first",
        ),
        (
            "from django.conf import settings; settings.configure(); import django; django.setup()",
            'add "celery_lease.django" to INSTALLED_APPS',
        ),
    ],
)
def test_django_that_is_not_set_up(before: str, told: str) -> None:
    script = f"{before}\n{OPEN}"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ConfigurationError" in ran.stderr
    assert told in ran.stderr


def test_an_unknown_alias_names_the_valid_ones() -> None:
    with pytest.raises(ConfigurationError, match="valid are django://default"):
        open_store("django://reporting")


def test_the_app_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "app_configs", {})
    with pytest.raises(ConfigurationError, match="INSTALLED_APPS"):
        open_store("django://default")
