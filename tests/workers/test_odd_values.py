"""Values that a database or JSON has trouble with pass through, or are named, and end no worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.workers.conftest import Project

#: What PostgreSQL's text cannot hold, what UTF-8 cannot, and what is merely unusual.
WORDS = ["nul \0 inside", "half a pair \ud800", "'; DROP TABLE", "\u2028\r\n\t"]


def test_arguments_and_results_come_out_as_they_went_in(redis_project: Project) -> None:
    values: list[Any] = [*WORDS, {"b": [1, None], "a": 1.5}, 10**30, "x" * 1_000_000]
    with redis_project.worker(pool="threads"):
        results = [redis_project.app.echo.delay(value) for value in values]
        assert [result.get(timeout=20) for result in results] == values
        for result in results:
            wait_for(lambda one=result: one.job.settled_at, what="settled")


def test_a_dict_with_keys_of_several_types_is_what_json_makes_of_it(
    redis_project: Project,
) -> None:
    with redis_project.worker(pool="threads"):
        result = redis_project.app.mixed.delay()
        assert result.get(timeout=20) == {"1": "one", "two": 2}
        wait_for(lambda: result.job.settled_at, what="settled")
    assert result.job.result == '{"1": "one", "two": 2}'


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_any_text_of_a_failure_is_kept(redis_project: Project, pool: str) -> None:
    with redis_project.worker(pool=pool):
        for word in WORDS:
            result = redis_project.app.shout.delay(word)
            job = redis_project.wait_for_state(result.id, "dead")
            assert job.failure is not None
            assert job.failure.name == "RuntimeError"
            wait_for(lambda one=result: one.job.settled_at, what="settled")
            assert result.state == "FAILURE"


@pytest.mark.parametrize("word", WORDS)
def test_any_word_makes_a_key(redis_project: Project, word: str) -> None:
    results = [redis_project.app.keyed.delay(word, 1) for _ in range(2)]
    assert [result.duplicate for result in results] == [False, True]
