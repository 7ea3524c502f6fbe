"""The table of options: each is readable, explained, and listed where people look."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_example import options, policy
from django_example.options import TABLE, Option

README = Path(options.__file__).with_name("README.md")


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.name)
def test_a_default_is_written_as_the_environment_would(option: Option[object]) -> None:
    assert option.read({}) == option.read({option.name: option.default})


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.name)
def test_the_readme_lists_it(option: Option[object]) -> None:
    row = f"| `{option.name}` | `{option.default}` | {option.meaning} |"
    assert row in README.read_text(), f"add to {README.name}: {row}"


def test_the_readme_lists_nothing_else() -> None:
    _, _, section = README.read_text().partition("## Options")
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert len(rows) == len(TABLE)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (options.WORKER_COUNT, "0"),
        (options.WORKER_COUNT, "many"),
        (options.LEASE_TTL, "-1"),
        (options.LEASE_TTL, "nan"),
        (options.ALLOWED_NETWORKS, "10.0.0.0/99"),
    ],
)
def test_a_wrong_value_is_refused_by_name(option: Option[object], text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=option.name):
        option.read({option.name: text})


def test_the_policy_leaves_time_for_the_verdict() -> None:
    assert policy.HTTP_DEADLINE < policy.ATTEMPT_TIMEOUT < policy.LEASE_TTL
