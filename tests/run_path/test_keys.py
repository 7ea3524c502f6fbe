"""Submissions under one operation key are one job, each with its own id and followers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from celery_lease import OperationKeyConflict, PermanentError
from celery_lease.errors import ConfigurationError
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.run_path.conftest import Lab


@pytest.fixture
def keyed(lab: Lab) -> Any:
    @lab.task(lease_key="order:{number}", lease_tenant="t{number}", max_retries=0)
    def keyed(number: int, *, fail: bool = False) -> int:
        lab.note(number)
        if fail:
            raise PermanentError("no")
        return number * 10

    return keyed


@pytest.fixture
def seen(lab: Lab) -> Any:
    @lab.task()
    def seen(*args: Any) -> None:
        lab.note(("seen", args[-1]))

    return seen


def test_a_duplicate_keeps_its_own_id_and_shares_the_job(lab: Lab, keyed: Any) -> None:
    first = keyed.apply_async((1,), countdown=600)
    second = keyed.apply_async((1,), task_id="mine")
    assert (second.id, first.duplicate, second.duplicate) == ("mine", False, True)
    assert first.job.id == second.job.id == first.id
    assert (first.job.key, first.job.tenant) == ("order:1", "t1")
    assert lab.kinds(first).count("duplicate_submitted") == 1


def test_all_submissions_get_the_result_and_their_own_followers(
    lab: Lab, keyed: Any, seen: Any
) -> None:
    first = keyed.apply_async((2,), link=seen.s("first"), countdown=0.3)
    waiting = keyed.apply_async((2,), link=seen.s("waiting"))
    lab.ended(first)
    late = keyed.apply_async((2,), link=seen.s("late"))
    for result in (first, waiting, late):
        wait_for(lambda r=result: lab.app.backend.get_state(r.id) == "SUCCESS", what="result")
        assert result.result == 20
    expected = {("seen", word) for word in ("first", "waiting", "late")}
    wait_for(lambda: expected <= set(lab.runs), what="followers")
    assert sorted(map(str, lab.runs)) == sorted(map(str, [*expected, 2]))


def test_a_dead_jobs_submissions_get_the_failure_and_their_own_errbacks(
    lab: Lab, keyed: Any, seen: Any
) -> None:
    first = keyed.apply_async((3,), {"fail": True}, link_error=seen.si("first"), countdown=0.3)
    waiting = keyed.apply_async((3,), {"fail": True}, link_error=seen.si("waiting"))
    assert lab.ended(first).state == "dead"
    late = keyed.apply_async((3,), {"fail": True}, link_error=seen.si("late"))
    for result in (first, waiting, late):
        wait_for(lambda r=result: lab.app.backend.get_state(r.id) == "FAILURE", what="failure")
    expected = {("seen", word) for word in ("first", "waiting", "late")}
    wait_for(lambda: expected <= set(lab.runs), what="errbacks")
    assert lab.runs.count(3) == 1
    assert late.job.state == "dead"


def test_other_arguments_conflict_and_leave_the_first_alone(lab: Lab) -> None:
    @lab.task(lease_key="order:{number}")
    def other(number: int, amount: int) -> int:
        return number + amount

    first = other.apply_async((1, 2), countdown=600)
    before, events = lab.job(first), lab.kinds(first)
    with pytest.raises(OperationKeyConflict):
        other.delay(1, 3)
    assert (lab.job(first), lab.kinds(first)) == (before, events)


def test_equal_arguments_written_differently_are_no_conflict(keyed: Any) -> None:
    first = keyed.apply_async((4,), countdown=600)
    assert keyed.apply_async((), {"number": 4, "fail": False}).job.id == first.id


def test_a_dead_job_is_kept_or_replayed(lab: Lab) -> None:
    @lab.task(lease_key="k:{number}", lease_on_dead="replay")
    def once_bad(number: int) -> int:
        if lab.note("run") == 1:
            raise PermanentError("no")
        return number

    dead, first = lab.outcome(once_bad, 7)
    assert dead.state == "dead"
    kept = once_bad.apply_async((7,), lease_on_dead="keep")
    assert kept.job.state == "dead"
    replayed = once_bad.delay(7)
    assert replayed.duplicate
    for result in (first, kept, replayed):
        wait_for(lambda r=result: lab.app.backend.get_state(r.id) == "SUCCESS", what="result")
        assert result.get(timeout=5, disable_sync_subtasks=False) == 7
    assert lab.runs == ["run", "run"]


def test_a_submission_again_under_its_id_is_that_submission(lab: Lab, keyed: Any) -> None:
    first = keyed.apply_async((5,), task_id="once", countdown=600)
    again = keyed.apply_async((5,), task_id="once")
    assert again.job.id == first.job.id == "once"
    assert lab.kinds("once").count("duplicate_submitted") == 0


def test_values_cannot_imitate_the_templates_separators(lab: Lab) -> None:
    @lab.task(lease_key="{a}:{b}")
    def pair(a: str, b: str) -> None: ...

    one = pair.apply_async(("x:y", "z"), countdown=600)
    two = pair.apply_async(("x", "y:z"), countdown=600)
    assert one.job.id != two.job.id


def test_a_callable_makes_the_key(lab: Lab) -> None:
    @lab.task(lease_key=lambda a, b: f"{min(a, b)}-{max(a, b)}")
    def pair(a: int, b: int) -> None: ...

    one = pair.apply_async((1, 2), countdown=600)
    assert one.job.key == "1-2"


def test_a_template_that_names_no_argument_says_which_there_are(lab: Lab) -> None:
    @lab.task(lease_key="{order_id}")
    def body(number: int) -> None: ...

    with pytest.raises(ConfigurationError, match=r"lease_key.*order_id.*number"):
        body.delay(1)
