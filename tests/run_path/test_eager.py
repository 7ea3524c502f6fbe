"""Eager calls submit and claim in place, so that tests see what a worker would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from celery_lease import OperationKeyConflict, PermanentError, current_lease
from celery_lease.errors import MessageNotSerialisable, UnknownOption

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.run_path.conftest import Lab


@pytest.fixture
def eager(make_lab: Callable[..., Lab]) -> Lab:
    return make_lab(task_always_eager=True)


@pytest.fixture(params=["delay", "apply"])
def call(request: pytest.FixtureRequest, eager: Lab) -> Callable[..., Any]:
    assert eager.app.conf.task_always_eager
    return lambda task, *args: getattr(task, request.param)(
        *([args] if request.param == "apply" else args)
    )


def test_an_eager_call_is_a_job(eager: Lab, call: Callable[..., Any]) -> None:
    @eager.task()
    def body(n: int) -> int:
        return n * current_lease().attempt

    result = call(body, 4)
    assert (result.state, result.get()) == ("SUCCESS", 4)
    job = eager.job(result.id)
    assert (job.state, job.result) == ("succeeded", "4")
    assert job.settled_at is not None
    assert eager.kinds(result.id)[:3] == ["created", "claimed", "succeeded"]


def test_commit_works(eager: Lab, call: Callable[..., Any]) -> None:
    @eager.task()
    def body() -> None:
        with current_lease().commit() as done:
            eager.note("effect")
            done.result = "committed"

    result = call(body)
    assert (result.get(), eager.runs) == ("committed", ["effect"])
    assert eager.job(result.id).result == '"committed"'


def test_retries_happen_in_place(eager: Lab, call: Callable[..., Any]) -> None:
    @eager.task(lease_backoff=[600])
    def body() -> int:
        if eager.note("run") < 3:
            raise ValueError("again")
        return current_lease().attempt

    result = call(body)
    assert (result.state, result.get(), len(eager.runs)) == ("SUCCESS", 3, 3)
    assert eager.job(result.id).attempts == 3


def test_a_retry_with_other_arguments_happens_in_place(
    eager: Lab, call: Callable[..., Any]
) -> None:
    @eager.task(bind=True)
    def body(self: Any, n: int) -> int:
        if n < 3:
            raise self.retry(args=[n + 1], countdown=600)
        return n

    assert call(body, 1).get() == 3


def test_attempts_end(eager: Lab, call: Callable[..., Any]) -> None:
    @eager.task()
    def body() -> NoReturn:
        eager.note("run")
        raise ValueError("never")

    result = call(body)
    assert (result.state, len(eager.runs)) == ("FAILURE", 3)
    assert eager.job(result.id).state == "dead"
    with pytest.raises(ValueError, match="never"):
        result.get()


def test_errors_propagate_where_celery_was_told_so(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(task_always_eager=True, task_eager_propagates=True)

    @lab.task()
    def body() -> NoReturn:
        raise PermanentError("no")

    with pytest.raises(PermanentError):
        body.delay()


def test_followers_run_in_place(eager: Lab) -> None:
    @eager.task()
    def add(x: int, y: int) -> int:
        eager.note(x + y)
        return x + y

    result = (add.s(1, 2) | add.s(3)).delay()
    assert (result.get(), eager.runs) == (6, [3, 6])
    add.apply_async((1, 1), link=add.s(5))
    assert eager.runs == [3, 6, 2, 7]


def test_options_of_a_call_are_in_force(eager: Lab) -> None:
    @eager.task()
    def body() -> NoReturn:
        eager.note("run")
        raise ValueError("never")

    body.apply_async(lease_max_attempts=1)
    assert len(eager.runs) == 1
    with pytest.raises(UnknownOption):
        body.apply_async(lease_max_atempts=1)


def test_a_key_gives_the_recorded_result(eager: Lab) -> None:
    @eager.task(lease_key="k:{n}")
    def body(n: int, m: int = 0) -> int:
        return eager.note(n) + m

    first, second = body.delay(1), body.delay(1)
    assert (first.get(), second.get(), eager.runs) == (1, 1, [1])
    with pytest.raises(OperationKeyConflict):
        body.delay(1, 2)


def test_arguments_that_no_broker_takes_are_refused(eager: Lab) -> None:
    @eager.task()
    def body(thing: object) -> None: ...

    with pytest.raises(MessageNotSerialisable):
        body.delay(object())
