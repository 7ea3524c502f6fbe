"""Arguments on their way: as they were given, as `retry()` changes them, as people see them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from celery_lease.message import Message, decoded
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.run_path.conftest import Lab

SECRET = "s3cret"


@pytest.fixture
def growing(lab: Lab) -> Any:
    @lab.task(bind=True, lease_max_attempts=4)
    def growing(self: Any, n: int, *, word: str = "") -> int:
        lab.note((n, word))
        if n < 3:
            raise self.retry(args=[n + 1], kwargs={"word": word + "x"}, countdown=0)
        return n

    return growing


@pytest.mark.parametrize(
    "options", [{}, {"compression": "gzip"}, {"headers": {"own": 1}, "priority": 3}]
)
def test_replaced_arguments_travel_in_the_kept_message(
    lab: Lab, growing: Any, options: dict[str, Any]
) -> None:
    job, result = lab.outcome(growing, 1, **options)
    assert lab.runs == [(1, ""), (2, "x"), (3, "xx")]
    message = Message.loads(job.message)
    args, kwargs, _ = decoded(message, job.body)
    assert (args, kwargs, job.arguments) == ([3], {"word": "xx"}, "3, word='xx'")
    assert message.headers["argsrepr"] == "(3,)"
    assert message.headers.get("own") == options.get("headers", {}).get("own")
    assert (message.properties.get("priority"), result.result) == (options.get("priority"), 3)


def test_followers_survive_a_replacement(lab: Lab, growing: Any) -> None:
    @lab.task()
    def follower(result: int) -> None:
        lab.note(("followed", result))

    lab.outcome(growing, 2, link=follower.s())
    wait_for(lambda: ("followed", 3) in lab.runs, what="follower")


def test_a_replacement_that_cannot_be_sent_is_the_bodys_error(lab: Lab) -> None:
    @lab.task(bind=True)
    def body(self: Any, thing: object) -> None:
        lab.note(thing)
        raise self.retry(args=[object()], countdown=0)

    job, result = lab.outcome(body, 1)
    assert (job.state, result.state, lab.runs) == ("dead", "FAILURE", [1, 1, 1])
    retried = [e for e in lab.store.events(job.id) if e.kind == "retry_scheduled"]
    assert [e.details["code"] for e in retried] == ["MessageNotSerialisable"] * 2


def test_a_key_is_that_of_the_first_arguments(lab: Lab) -> None:
    @lab.task(bind=True, lease_key="order:{order}")
    def body(self: Any, order: int, step: int = 1) -> int:
        if step < 2:
            raise self.retry(args=[order, step + 1], countdown=0)
        return step

    job, first = lab.outcome(body, 501)
    again = body.delay(501)
    assert (again.job.id, job.key) == (first.id, "order:501")
    wait_for(lambda: lab.app.backend.get_state(again.id) == "SUCCESS", what="result")
    assert again.result == 2


@pytest.mark.parametrize(
    "value",
    [
        None,
        "ü \x00 😀",
        b"bytes",
        [1.5, {"deep": [True]}],
        Decimal("1.10"),
        UUID(int=7),
        date(2024, 2, 29),
        datetime(2024, 2, 29, 12, tzinfo=UTC),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_come_through_and_back(lab: Lab, value: Any) -> None:
    @lab.task()
    def echo(given: Any) -> Any:
        lab.note(given)
        return given

    job, result = lab.outcome(echo, value)
    assert (job.state, lab.runs) == ("succeeded", [value])
    assert result.result == value
    lab.app.backend.delete(lab.app.backend.get_key_for_task(job.id))
    assert echo.AsyncResult(job.id).result == value


def test_the_copy_for_people_is_bounded(lab: Lab) -> None:
    @lab.task()
    def body(_text: str) -> None: ...

    job = body.apply_async(("x" * 100_000,), countdown=600).job
    assert len(job.arguments) <= 4096
    assert job.arguments.endswith("…")


def test_what_the_caller_hides_from_people_stays_hidden(lab: Lab) -> None:
    @lab.task(bind=True, lease_max_attempts=2)
    def body(self: Any, secret: str, *, token: str) -> None:
        lab.note(secret)
        if len(lab.runs) < 2:
            raise self.retry(kwargs={"token": token + "2"}, countdown=0)

    hidden = {"argsrepr": "('***',)", "kwargsrepr": "{'token': '***'}"}
    job = lab.ended(body.apply_async((SECRET,), {"token": SECRET}, **hidden))
    assert lab.runs == [SECRET, SECRET]
    assert job.arguments == "('***',) {'token': '***'}"
    headers = Message.loads(job.message).headers
    assert (headers["argsrepr"], headers["kwargsrepr"]) == ("('***',)", "{'token': '***'}")
