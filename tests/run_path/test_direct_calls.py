"""Called as a function, a leased task is one: no job, no lease, no retry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from celery_lease import current_lease
from celery_lease.errors import NoLease
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.run_path.conftest import Lab


def test_a_direct_call_runs_plainly(lab: Lab) -> None:
    @lab.task()
    def body(n: int) -> int:
        if n < 0:
            raise ValueError("negative")
        return n + 1

    assert body(1) == 2
    with pytest.raises(ValueError, match="negative"):
        body(-1)


def test_there_is_no_lease_outside_an_attempt(lab: Lab) -> None:
    @lab.task(bind=True)
    def body(self: Any) -> Any:
        return self.lease

    with pytest.raises(NoLease):
        body()
    with pytest.raises(NoLease):
        current_lease()
    with pytest.raises(NoLease):
        _ = body.lease


def test_recursion_inside_an_attempt_is_part_of_it(lab: Lab) -> None:
    @lab.task(bind=True)
    def factorial(self: Any, n: int) -> int:
        lab.note(self.lease.token)
        return n * self(n - 1) if n else 1

    job, _ = lab.outcome(factorial, 4)
    assert (job.result, len(lab.runs), len(set(lab.runs))) == ("24", 5, 1)
    assert lab.kinds(job.id).count("claimed") == 1


def test_another_leased_task_called_as_a_function_is_part_of_the_attempt(lab: Lab) -> None:
    @lab.task()
    def inner() -> int:
        return current_lease().attempt

    @lab.task()
    def outer() -> int:
        return inner() + 1

    job, _ = lab.outcome(outer)
    assert job.result == "2"


def test_map_starmap_and_chunks_run_plain_calls(lab: Lab) -> None:
    @lab.task()
    def add(x: int, y: int = 1) -> int:
        lab.note(x)
        return x + y

    lab.app.finalize()
    lab._worker.consumer.update_strategies()
    mapped = add.map([1, 2]).delay()
    starred = add.starmap([(1, 2), (3, 4)]).delay()
    chunked = add.chunks([(1, 1), (2, 2), (3, 3)], 2).apply_async()
    assert mapped.get(timeout=5) == [2, 3]
    assert starred.get(timeout=5) == [3, 7]
    assert chunked.get(timeout=5) == [[2, 4], [6]]
    assert lab.store.get(mapped.id) is None


def test_a_nested_apply_is_a_job_of_its_own(lab: Lab) -> None:
    @lab.task()
    def inner() -> str:
        return current_lease().grant.job_id

    @lab.task()
    def outer() -> str:
        own = current_lease().grant.job_id
        assert inner.apply().get(disable_sync_subtasks=False) != own
        return current_lease().grant.job_id

    job, _ = lab.outcome(outer)
    assert job.result == f'"{job.id}"'


def test_a_retry_outside_an_attempt_raises_the_cause(lab: Lab) -> None:
    @lab.task(bind=True)
    def body(self: Any) -> None:
        raise self.retry(exc=ValueError("cause"))

    with pytest.raises(ValueError, match="cause"):
        body()


def test_runs_of_the_same_task_do_not_share_a_lease(lab: Lab) -> None:
    @lab.task()
    def body(n: int) -> str:
        lab.note(n)
        wait_for(lambda: len(lab.runs) == 2, what="the other run")
        return current_lease().grant.job_id

    results = [body.delay(n) for n in range(2)]
    assert [lab.ended(r).result for r in results] == [f'"{r.id}"' for r in results]
