"""What the README shows works, and what it lists is what there is."""

from __future__ import annotations

import re
from typing import Any

import pytest

from celery_lease import LeasedTask
from celery_lease.policy import DAY, NAMES, PER_CALL, PREFIX, Options
from tests.support.worker import ROOT

README = (ROOT / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
ROWS = re.findall(r"^\| `(lease_\w+)` \| (.+?) \| (✓?) ?\| (.+) \|$", README, re.MULTILINE)
DEFAULTS: dict[str, Any] = {
    "required": None,
    "none": None,
    "true": True,
    "7 days": 7 * DAY,
    "30 days": 30 * DAY,
}


@pytest.mark.parametrize("example", EXAMPLES, ids=["first", "everything"])
def test_example_declares_a_leased_task(example: str) -> None:
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(example, "README.md", "exec"), names)  # noqa: S102 - the examples are ours
    [task] = [value for name, value in names.items() if name in ("add", "charge")]
    assert isinstance(task, LeasedTask)
    assert task.lease_options.heartbeat < task.lease_options.ttl / 2


def test_every_option_is_listed_once() -> None:
    assert [row[0] for row in ROWS] == [f"{PREFIX}{name}" for name in NAMES]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_option_is_listed_as_it_is(row: tuple[str, str, str, str]) -> None:
    name, default, per_call, _ = row
    option = name.removeprefix(PREFIX)
    assert bool(per_call) == (option in PER_CALL)
    assert _value(default) == getattr(Options(), option)


def _value(text: str) -> Any:
    if text in DEFAULTS:
        return DEFAULTS[text]
    import celery_lease

    return eval(text.strip("`"), vars(celery_lease))  # noqa: S307 - the table is ours
