"""Duplicates of messages and submissions at awkward moments: one run, one outcome for all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from celery_lease import signals
from celery_lease.job import Due
from celery_lease.publisher import Publisher
from tests.run_path.refusing import Refusing
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from celery_lease.job import Job
    from celery_lease.results import LeasedResult
    from tests.run_path.conftest import Lab


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Holds bodies back until it is set."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def gated(lab: Lab, gate: threading.Event) -> Any:
    @lab.task(lease_key="{word}")
    def gated(word: str) -> str:
        lab.note("run")
        assert gate.wait(10)
        return word

    return gated


@pytest.fixture
def word() -> str:
    return uuid4().hex


def _succeeded(lab: Lab, result: LeasedResult) -> Any:
    wait_for(lambda: lab.app.backend.get_state(result.id) == "SUCCESS", what="result")
    return result.result


def _publish(lab: Lab, job: Job, times: int) -> None:
    Publisher(lab.app).publish([Due(job.id, job.message, job.body, 0)] * times)


def test_messages_delivered_while_the_job_runs_do_nothing(
    lab: Lab, gated: Any, gate: threading.Event, word: str
) -> None:
    result = gated.delay(word)
    wait_for(lambda: lab.runs, what="run")
    seen = lab.delivered()
    _publish(lab, result.job, 5)
    wait_for(lambda: lab.delivered() == seen + 5, what="deliveries")
    wait_for(lambda: lab.unacknowledged() == 1, what="other messages acknowledged")
    gate.set()
    assert (lab.ended(result).attempts, lab.runs) == (1, ["run"])
    assert _succeeded(lab, result) == word


def test_a_message_delivered_too_early_does_nothing(lab: Lab, gated: Any, word: str) -> None:
    result = gated.apply_async((word,), countdown=600)
    lab.deliver_again(result.job)
    job = lab.job(result)
    assert (job.state, job.attempts, lab.runs) == ("pending", 0, [])
    assert job.next_publish_at == job.available_at


def test_a_submission_that_joins_a_running_job_gets_its_result(
    lab: Lab, gated: Any, gate: threading.Event, word: str
) -> None:
    first = gated.delay(word)
    wait_for(lambda: lab.runs, what="run")
    second = gated.delay(word)
    assert (second.duplicate, second.job.state, second.state) == (True, "running", "STARTED")
    gate.set()
    assert [_succeeded(lab, r) for r in (first, second)] == [word, word]
    assert lab.runs == ["run"]


def test_a_submission_that_joins_while_the_outcome_is_stuck_gets_it(lab: Lab, word: str) -> None:
    refusing = Refusing(lab.app, backend="memory://")
    refusing.refusals = 2

    @lab.task(lease_key="{word}", backend=refusing, lease_ttl=0.3)
    def body(word: str) -> str:
        lab.note("run")
        return word

    first = body.delay(word)
    wait_for(lambda: lab.job(first).state == "succeeded", what="success")
    second = body.delay(word)
    assert [_succeeded(lab, r) for r in (first, second)] == [word, word]
    assert lab.runs == ["run"]


def test_submissions_from_many_threads_are_one_job(
    lab: Lab, gated: Any, gate: threading.Event, word: str
) -> None:
    gate.set()
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(gated.delay, [word] * 24))
    assert [_succeeded(lab, r) for r in results] == [word] * 24
    assert sum(not r.duplicate for r in results) == 1
    assert len({r.job.id for r in results}) == 1
    assert lab.runs == ["run"]


def test_tasks_do_not_share_keys(lab: Lab, gated: Any, word: str) -> None:
    @lab.task(lease_key="{word}")
    def other(word: str) -> str:
        return word

    one, two = (task.apply_async((word,), countdown=600) for task in (gated, other))
    assert (two.duplicate, one.job.key) == (False, two.job.key)


def test_a_cancelled_job_tells_all_its_submissions(lab: Lab, gated: Any, word: str) -> None:
    results = [gated.apply_async((word,), countdown=600) for _ in range(2)]
    lab.store.cancel(results[1].id, by="a test")
    for result in results:
        wait_for(lambda r=result: lab.app.backend.get_state(r.id) == "REVOKED", what="revoked")
    assert results[0].job.state == "cancelled"


def test_a_job_cancelled_while_it_runs_stays_cancelled(
    lab: Lab, gated: Any, gate: threading.Event, word: str
) -> None:
    result = gated.delay(word)
    wait_for(lambda: lab.runs, what="run")
    lab.store.cancel(result.id, by="a test")
    gate.set()
    job = lab.ended(result)
    assert (job.state, job.result) == ("cancelled", None)
    wait_for(lambda: lab.app.backend.get_state(result.id) == "REVOKED", what="revoked")
    assert "stale_write_refused" in lab.kinds(job.id)


def test_the_sender_of_a_duplicate_is_told_by_a_signal(gated: Any, word: str) -> None:
    told: list[str] = []

    def tell(task_id: str, **_: Any) -> None:
        told.append(task_id)

    signals.job_duplicate.connect(tell)
    first, second = (gated.apply_async((word,), countdown=600) for _ in range(2))
    signals.job_duplicate.disconnect(tell)
    assert (told, first.duplicate) == ([second.id], False)
