"""Settings are found under every name by which Celery itself would find its own."""

from __future__ import annotations

import types
from typing import Any

import pytest
from celery import Celery

from celery_lease import LeasedTask
from celery_lease.errors import UnknownOption


def _body() -> None: ...


def _ttl(settings: dict[str, Any], namespace: str | None) -> float:
    app = Celery("names", set_as_current=False)
    app.config_from_object(types.SimpleNamespace(**settings), namespace=namespace)
    task: Any = app.task(base=LeasedTask, shared=False)(_body)
    return float(task.lease_options.ttl)


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("lease_ttl", None),
        ("CELERY_LEASE_TTL", None),
        ("CELERY_LEASE_TTL", "CELERY"),
        ("SHOP_LEASE_TTL", "SHOP"),
        ("lease_ttl", "CELERY"),
    ],
)
def test_a_setting_is_found(name: str, namespace: str | None) -> None:
    assert _ttl({name: 33}, namespace) == 33


def test_old_style_settings_next_to_it_do_not_hide_it() -> None:
    old = {"CELERY_RESULT_BACKEND": "cache+memory://", "CELERY_ALWAYS_EAGER": True}
    assert _ttl({"CELERY_LEASE_TTL": 33, **old}, None) == 33


@pytest.mark.parametrize(
    ("name", "namespace"), [("CELERY_LEASE_TTX", None), ("SHOP_LEASE_TTX", "SHOP")]
)
def test_an_unknown_name_is_refused_as_well(name: str, namespace: str | None) -> None:
    with pytest.raises(UnknownOption, match="did you mean lease_ttl"):
        _ttl({name: 33}, namespace)


def test_a_setting_of_another_part_of_the_project_is_left_alone() -> None:
    assert _ttl({"LEASE_TIME": 33, "CELERY_LEASE_TTL": 20}, "CELERY") == 20
