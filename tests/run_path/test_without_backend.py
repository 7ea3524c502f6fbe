"""A project without a result backend, or with one that answers by messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from celery.exceptions import TimeoutError  # noqa: A004 - what Celery raises

from celery_lease import PermanentError
from tests.run_path.conftest import Lab
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", params=[None, "rpc://"], ids=["disabled", "rpc"])
def module_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    made = Lab(result_backend=request.param)

    @made.task()
    def first() -> None: ...

    with made.worker():
        yield made
    made.app.close()


@pytest.fixture
def lab(module_lab: Lab) -> Lab:
    module_lab.runs = []
    return module_lab


@pytest.fixture
def add(lab: Lab) -> Any:
    @lab.task()
    def add(x: int, y: int) -> int:
        lab.note(x + y)
        return x + y

    return add


def test_a_result_can_be_waited_for(lab: Lab, add: Any) -> None:
    result = add.delay(1, 2)
    assert result.get(timeout=5, interval=0.01, disable_sync_subtasks=False) == 3
    assert (result.state, result.ready(), result.successful()) == ("SUCCESS", True, True)
    assert lab.ended(result).state == "succeeded"


def test_waiting_ends_in_time(add: Any) -> None:
    result = add.apply_async((1, 2), countdown=600)
    with pytest.raises(TimeoutError):
        result.get(timeout=0.05, interval=0.01)


def test_an_ignored_result_is_not_waited_for(add: Any) -> None:
    result = add.apply_async((1, 2), countdown=600, ignore_result=True)
    result.ignored = True
    assert result.get(timeout=5) is None


def test_a_failure_is_raised(lab: Lab) -> None:
    @lab.task()
    def bad() -> NoReturn:
        raise PermanentError("no")

    job, result = lab.outcome(bad)
    assert (job.state, result.state, result.failed()) == ("dead", "FAILURE", True)
    with pytest.raises(PermanentError, match="no"):
        result.get(timeout=5, interval=0.01, disable_sync_subtasks=False)


def test_followers_and_chains_are_handed_on(lab: Lab, add: Any) -> None:
    last = (add.s(1, 1) | add.s(2)).apply_async(link=add.s(10))
    wait_for(lambda: lab.runs == [2, 4, 14], what="followers")
    assert lab.ended(last).result == "4"


def test_nobody_but_the_store_is_asked_for_a_duplicate(lab: Lab) -> None:
    @lab.task(lease_key="k")
    def once() -> int:
        return lab.note("run")

    _, first = lab.outcome(once)
    second = once.delay()
    for result in (first, second):
        assert result.get(timeout=5, interval=0.01, disable_sync_subtasks=False) == 1
    assert (second.duplicate, lab.runs) == (True, ["run"])


def test_without_a_backend_or_a_follower_nothing_is_to_be_settled(lab: Lab, add: Any) -> None:
    job, _ = lab.outcome(add, 1, 2)
    assert ("settled" in lab.kinds(job.id)) is (lab.app.conf.result_backend is not None)
