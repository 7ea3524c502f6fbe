"""Chains, groups and chords of leased tasks, and of leased and plain ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from celery import Task, chain, chord, group

from celery_lease import PermanentError
from celery_lease.message import Message
from tests.run_path.refusing import Refusing
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.run_path.conftest import Lab


@pytest.fixture
def add(lab: Lab) -> Any:
    @lab.task()
    def add(x: int, y: int) -> int:
        lab.note(x + y)
        return x + y

    return add


@pytest.fixture
def total(lab: Lab) -> Any:
    @lab.task()
    def total(numbers: list[int]) -> int:
        lab.note("total")
        return sum(numbers)

    return total


@pytest.fixture
def bad(lab: Lab) -> Any:
    @lab.task()
    def bad(*_given: Any) -> NoReturn:
        raise PermanentError("no")

    return bad


@pytest.fixture
def seen(lab: Lab) -> Any:
    @lab.task()
    def seen(word: str) -> None:
        lab.note(word)

    return seen


def _get(result: Any) -> Any:
    return result.get(timeout=5, disable_sync_subtasks=False)


def test_a_chain_is_one_job_per_member(lab: Lab, add: Any) -> None:
    last = chain(add.s(1, 1), add.s(2), add.s(3)).delay()
    assert _get(last) == 7
    ids = [last.parent.parent.id, last.parent.id, last.id]
    assert [lab.ended(task_id).result for task_id in ids] == ["2", "4", "7"]
    assert lab.runs == [2, 4, 7]


def test_leased_and_plain_members_mix(lab: Lab, add: Any) -> None:
    @lab.task(base=Task)
    def double(n: int) -> int:
        return n * 2

    assert _get(chain(add.s(1, 1), double.s(), add.s(1)).delay()) == 5


def test_a_chain_stops_at_the_dead_member(lab: Lab, add: Any, bad: Any, seen: Any) -> None:
    last = chain(add.s(1, 1), bad.s(), add.s(1)).apply_async(link_error=seen.si("errback"))
    with pytest.raises(PermanentError):
        _get(last)
    wait_for(lambda: "errback" in lab.runs, what="errback")
    assert lab.ended(last.parent.id).state == "dead"
    assert lab.store.get(last.id) is None


def test_a_member_handed_out_twice_has_one_successor(lab: Lab, add: Any) -> None:
    @lab.task(backend=Refusing(lab.app, backend="memory://"), lease_ttl=0.3)
    def first() -> int:
        return 1

    last = chain(first.s(), add.s(2), add.s(3)).delay()
    job = lab.ended(last.parent.parent.id)
    assert _get(last) == 6
    assert (job.settle_attempts, lab.runs) == (1, [3, 6])


def test_a_group_is_one_job_per_member(lab: Lab, add: Any) -> None:
    result = group(add.s(n, n) for n in range(4)).delay()
    assert sorted(_get(result)) == [0, 2, 4, 6]
    assert [lab.ended(child.id).state for child in result.results] == ["succeeded"] * 4


def test_a_chord_counts_every_member_once(lab: Lab, add: Any, total: Any) -> None:
    result = chord([add.s(n, n) for n in range(4)])(total.s())
    assert _get(result) == 12
    assert lab.ended(result.id).state == "succeeded"
    assert lab.runs.count("total") == 1


def test_a_chord_after_retries(lab: Lab, add: Any, total: Any) -> None:
    @lab.task()
    def shaky() -> int:
        if lab.note("shaky") == 1:
            raise ValueError("again")
        return 10

    result = chord([shaky.s(), add.s(1, 1)])(total.s())
    assert _get(result) == 12
    assert lab.runs.count("total") == 1


def test_a_chord_with_a_dead_member_fails_its_body(
    lab: Lab, add: Any, bad: Any, total: Any, seen: Any
) -> None:
    body = total.s().on_error(seen.si("errback"))
    result = chord([add.s(1, 1), bad.s()])(body)
    wait_for(lambda: lab.app.backend.get_state(result.id) == "FAILURE", what="failure")
    wait_for(lambda: "errback" in lab.runs, what="errback")
    assert "total" not in lab.runs


def test_a_group_as_follower(lab: Lab, add: Any, total: Any) -> None:
    last = (add.s(1, 1) | group(add.s(10), add.s(20)) | total.s()).delay()
    assert _get(last) == 34
    assert lab.runs.count("total") == 1


def test_a_replacement_by_a_chain_in_a_chain(lab: Lab, add: Any) -> None:
    @lab.task(bind=True)
    def first(self: Any) -> NoReturn:
        raise self.replace(chain(add.s(1, 1), add.s(2)))

    last = chain(first.s(), add.s(100)).delay()
    assert _get(last) == 104
    assert _get(last.parent) == 4
    assert lab.ended(last.parent.id).state == "succeeded"
    assert "replaced" in lab.kinds(last.parent.id)


def test_stamps_reach_followers_and_are_kept(lab: Lab, add: Any) -> None:
    signature = chain(add.s(1, 1), add.s(2))
    signature.stamp(colour="red")
    last = signature.delay()
    for task_id in (last.parent.id, last.id):
        headers = Message.loads(lab.ended(task_id).message).headers
        assert "red" in headers["stamps"]["colour"]
