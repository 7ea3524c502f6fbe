"""Messages of senders without the task class, and messages whose job is missing."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from celery import Celery

from celery_lease import absence
from celery_lease.job import Due, Job, NewJob
from celery_lease.message import HEADER, Message
from celery_lease.policy import DAY
from celery_lease.publisher import Publisher
from tests.run_path.refusing import Refusing
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.run_path.conftest import Lab


@pytest.fixture
def sender(lab: Lab) -> Celery:
    """Another service: knows the broker and the names of tasks."""
    app = Celery("sender", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.task_default_queue = lab.app.conf.task_default_queue
    app.conf.broker_transport_options = {"polling_interval": 0.01}
    return app


@pytest.fixture
def body(lab: Lab) -> Any:
    @lab.task(lease_key="{n}-{word}", lease_tenant="t{n}")
    def body(n: int, word: str) -> int:
        assert word
        return lab.note(n)

    return body


@pytest.fixture
def unique() -> str:
    return uuid4().hex


def _ended(lab: Lab, task_id: str) -> Job:
    wait_for(lambda: lab.store.get(task_id), what="job")
    return lab.ended(task_id)


def test_the_job_is_made_at_the_first_claim(
    lab: Lab, sender: Celery, body: Any, unique: str
) -> None:
    result = sender.send_task(body.name, (3, unique), headers={"x": "y"}, priority=4)
    job = _ended(lab, result.id)
    assert (job.state, job.key, job.tenant) == ("succeeded", f"3-{unique}", "t3")
    assert (job.max_attempts, job.queue) == (3, lab.app.conf.task_default_queue)
    assert (lab.runs, result.get(timeout=5)) == ([3], 1)
    kept = Message.loads(job.message)
    assert (kept.headers["x"], kept.properties["priority"]) == ("y", 4)
    assert kept.headers["id"] == job.id


def test_a_key_makes_two_senders_messages_one_job(
    lab: Lab, sender: Celery, body: Any, unique: str
) -> None:
    first = sender.send_task(body.name, (1, unique))
    _ended(lab, first.id)
    second = sender.send_task(body.name, (1, unique))
    assert second.get(timeout=5) == first.get(timeout=5) == 1
    assert (lab.job(second.id).id, lab.runs) == (first.id, [1])


def test_followers_of_a_foreign_message_run_once(
    lab: Lab, sender: Celery, body: Any, unique: str
) -> None:
    @lab.task()
    def follower(_result: Any, word: str) -> None:
        lab.note(word)

    link = sender.signature(follower.name, args=("link",), app=sender)
    result = sender.send_task(body.name, (1, unique), link=link)
    job = _ended(lab, result.id)
    wait_for(lambda: "link" in lab.runs, what="follower")
    lab.deliver_again(job)
    assert lab.runs == [1, "link"]


def test_followers_of_a_foreign_message_have_the_same_ids_when_handed_out_again(
    lab: Lab, sender: Celery
) -> None:
    @lab.task()
    def follower(_result: Any) -> None:
        lab.note("follower")

    @lab.task(backend=Refusing(lab.app, backend="memory://"), lease_ttl=0.3)
    def body() -> None:
        lab.note("run")

    result = sender.send_task(body.name, link=sender.signature(follower.name, app=sender))
    job = _ended(lab, result.id)
    wait_for(lambda: "follower" in lab.runs, what="follower")
    assert (job.settle_attempts, sorted(lab.runs)) == (1, ["follower", "run"])


def test_a_foreign_failure_is_retried_and_told(lab: Lab, sender: Celery) -> None:
    @lab.task()
    def bad() -> None:
        lab.note("run")
        raise ValueError("no luck")

    result = sender.send_task(bad.name)
    job = _ended(lab, result.id)
    assert (job.state, lab.runs) == ("dead", ["run"] * 3)
    with pytest.raises(ValueError, match="no luck"):
        result.get(timeout=5)


def test_a_countdown_of_another_sender_is_over_when_it_is_delivered(
    lab: Lab, sender: Celery, body: Any, unique: str
) -> None:
    result = sender.send_task(body.name, (1, unique), countdown=0.1, expires=60)
    job = _ended(lab, result.id)
    assert (job.state, job.attempts) == ("succeeded", 1)


@pytest.fixture
def orphan(lab: Lab, body: Any) -> Callable[[float], NewJob]:
    """Publishes a message of ours whose row is missing and kept for so long."""

    def publish(keep: float) -> NewJob:
        job = body.apply_async((1, uuid4().hex), countdown=DAY).job
        message = Message.loads(job.message)
        task_id = uuid4().hex
        headers = {**message.headers, "id": task_id, HEADER: {"keep": time.time() + keep}}
        text = replace(message, headers=headers).dumps()
        Publisher(lab.app).publish([Due(task_id, text, job.body, 0)])
        return NewJob(task_id, body.name, text, job.body, "fingerprint")

    return publish


def test_a_late_message_of_a_pruned_job_is_dropped(
    lab: Lab, orphan: Callable[[float], NewJob], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    new = orphan(-1)
    wait_for(lambda: f"job {new.id} was pruned" in caplog.text, what="log")
    wait_for(lambda: not lab.unacknowledged(), what="acknowledged message")
    assert (lab.store.get(new.id), lab.runs) == (None, [])


def test_a_row_missing_too_early_is_an_error_and_its_message_stays_alive(
    lab: Lab,
    orphan: Callable[[float], NewJob],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(absence, "FIRST_DELAY", 0.05)
    new = orphan(60)
    missing = f"job {new.id} is missing although it is kept until"
    wait_for(lambda: caplog.text.count(missing) >= 3, what="third delivery")
    assert (lab.store.get(new.id), lab.runs) == (None, [])
    # The row is back, as after the right backup; whatever is delivered next finds it.
    lab.store.submit([new])
    assert lab.ended(new.id).state == "succeeded"
    assert lab.runs == [1]
