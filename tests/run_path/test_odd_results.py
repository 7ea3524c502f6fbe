"""Results that are hard to keep: the job has succeeded all the same, and the worker goes on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from celery_lease import current_lease

if TYPE_CHECKING:
    from tests.run_path.conftest import Lab


class Mute:
    """Cannot be shown."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


class Trap:
    """Promises to be JSON."""

    def __json__(self) -> NoReturn:
        raise ZeroDivisionError

    def __repr__(self) -> str:
        return "<trap>"


def _endless() -> list[Any]:
    one: list[Any] = []
    one.append(one)
    return one


ODD = [
    (Mute, "<Unrepresentable"),
    (Trap, "<trap>"),
    (lambda: 1j, "1j"),
    (lambda: {1}, "{1}"),
    (lambda: {(1, 2): 3}, "{(1, 2): 3}"),
]


@pytest.mark.parametrize(("make", "kept"), ODD, ids=[kept for _, kept in ODD])
def test_what_json_cannot_hold_is_kept_as_its_repr(lab: Lab, make: Any, kept: str) -> None:
    @lab.task()
    def returning() -> Any:
        return make()

    @lab.task()
    def committing() -> None:
        with current_lease().commit() as done:
            done.result = make()

    for task in (returning, committing):
        job, result = lab.outcome(task)
        assert (job.state, job.attempts) == ("succeeded", 1)
        assert result.result.startswith(kept)


def test_an_endless_result_ends(lab: Lab) -> None:
    @lab.task()
    def body() -> Any:
        return _endless()

    job, result = lab.outcome(body)
    assert (job.state, type(result.result)) == ("succeeded", str)


@pytest.mark.parametrize(
    "value",
    [0, "", False, [], {}, {"b": 1, "a": 2}, {"a": 1, "deep": [{"x": None}]}, "\ud800", 10**30],
    ids=repr,
)
def test_what_json_can_hold_is_kept_as_it_is(lab: Lab, value: Any) -> None:
    @lab.task()
    def body() -> Any:
        return value

    job, result = lab.outcome(body)
    assert result.result == value
    lab.app.backend.delete(lab.app.backend.get_key_for_task(job.id))
    kept = body.AsyncResult(job.id).result
    assert (kept, type(kept)) == (value, type(value))


def test_keys_of_several_kinds_become_texts_as_in_any_json(lab: Lab) -> None:
    @lab.task()
    def body() -> Any:
        return {1: "a", "b": 2, None: 3}

    job, result = lab.outcome(body)
    assert result.result == {"1": "a", "b": 2, "null": 3}
    assert job.result == '{"1": "a", "b": 2, "null": 3}'


def test_a_result_that_is_no_number(lab: Lab) -> None:
    @lab.task()
    def body() -> float:
        return math.nan

    job, result = lab.outcome(body)
    assert job.state == "succeeded"
    assert math.isnan(result.result)
