"""Values of options that could never work are refused by the option's name."""

from __future__ import annotations

import math
from typing import Any

import pytest

from celery_lease import Backoff
from celery_lease.errors import ConfigurationError
from celery_lease.policy import DAY, Options, from_sources, overridden


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention", math.inf),
        ("ttl", math.nan),
        ("ttl", True),
        ("max_attempts", True),
        ("max_attempts", 2.5),
        ("store_args", "no"),
        ("backoff", [1, -1]),
        ("backoff", [False]),
        ("give_up_on", [KeyError]),
        ("tenant", 5),
        ("republish_after", "900"),
        ("attempt_timeout", 0),
    ],
)
def test_a_value_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"lease_{name} must be"):
        from_sources({f"lease_{name}": value})


@pytest.mark.parametrize("value", ["30", None, -1, math.inf])
def test_a_ttl_of_a_call_is_judged_as_a_tasks(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="lease_ttl must be"):
        overridden(Options(), {"lease_ttl": value})


@pytest.mark.parametrize(
    "arguments",
    [{"base": -1}, {"factor": "2"}, {"maximum": math.inf}, {"jitter": 1.5}, {"steps": (1, "2")}],
)
def test_a_backoff_that_is_none_is_refused(arguments: dict[str, Any]) -> None:
    [name] = arguments
    with pytest.raises(ConfigurationError, match=f"{name} of a Backoff must be"):
        Backoff(**arguments)


def test_a_backoff_grows_to_its_maximum_however_many_attempts() -> None:
    backoff = Backoff(base=1, factor=3, maximum=50, jitter=0)
    assert [backoff.delay(n) for n in (1, 2, 3, 4, 5, 10_000)] == [1, 3, 9, 27, 50, 50]


def test_a_jitter_spreads_both_ways() -> None:
    waits = [Backoff(base=10, jitter=0.2).delay(1) for _ in range(200)]
    assert 8 <= min(waits) < 10 < max(waits) <= 12


def test_the_defaults_are_the_documented_ones() -> None:
    options = Options()
    assert (options.ttl, options.heartbeat, options.max_attempts) == (15, 5, 6)
    assert (options.retention, options.key_retention) == (7 * DAY, 30 * DAY)
    assert options.backoff == Backoff(1, 2, 60, 0.2)
