"""One pass of a sweeper: what it takes, what it publishes, and when it wants to run again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from celery_lease import sweeper as module
from celery_lease.errors import StoreUnavailable
from celery_lease.message import Message
from celery_lease.publisher import Publisher
from celery_lease.stores.memory import MemoryStore
from celery_lease.sweeper import BATCH, Sweeper
from celery_lease.testing.clock import FakeClock
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from celery_lease.job import Due
    from tests.run_path.conftest import Lab

TTL = 15.0


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """Without a worker: its queue shows what was published."""
    return make_lab()


@pytest.fixture
def body(lab: Lab) -> Any:
    @lab.task()
    def body(n: int = 0) -> int:
        return n

    return body


@pytest.fixture
def clock(lab: Lab, body: Any) -> FakeClock:
    """The store's time, which stands still."""
    assert body
    store = lab.store
    assert isinstance(store, MemoryStore)
    store.clock = FakeClock()
    return store.clock


@pytest.fixture
def sweeper(lab: Lab, clock: FakeClock) -> Sweeper:
    assert clock
    return Sweeper(lab.store, Publisher(lab.app, own_connection=True), "w1", republish_after=900)


def _published(lab: Lab) -> list[str]:
    """The ids of all messages in the queue, which is then empty."""
    with lab.app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        queue = lab.app.conf.task_default_queue
        lab.app.amqp.queues[queue](channel).declare()
        taken = iter(lambda: channel.basic_get(queue, no_ack=True), None)
        return [message.headers["id"] for message in taken]


def test_nothing_is_due(lab: Lab, sweeper: Sweeper) -> None:
    assert sweeper.sweep() == 1.0
    assert _published(lab) == []
    assert lab.store.workers() == ["w1"]


def test_the_callers_own_message_is_not_published_twice(
    lab: Lab, body: Any, sweeper: Sweeper
) -> None:
    result = body.delay()
    sweeper.sweep()
    assert _published(lab) == [result.id]


def test_a_lost_message_is_published_again_and_later_each_time(
    lab: Lab, body: Any, sweeper: Sweeper, clock: FakeClock
) -> None:
    result = body.delay()
    assert _published(lab) == [result.id]
    for wait in (900, 1800, 3600):
        clock.advance(wait - 1)
        sweeper.sweep()
        assert _published(lab) == []
        clock.advance(1)
        sweeper.sweep()
        assert _published(lab) == [result.id]


def test_a_message_that_the_caller_could_not_publish_follows_soon(
    lab: Lab, body: Any, sweeper: Sweeper, clock: FakeClock
) -> None:
    lab.app.conf.task_publish_retry = False
    lab.app.conf.broker_write_url = "redis://127.0.0.1:1/0"
    result = body.apply_async(retry=False)
    lab.app.conf.broker_write_url = "memory://"
    clock.advance(10)
    sweeper.sweep()
    assert _published(lab) == [result.id]


def test_a_job_of_the_future_is_published_when_it_is_due(
    lab: Lab, body: Any, sweeper: Sweeper, clock: FakeClock
) -> None:
    result = body.apply_async(countdown=0.5)
    assert sweeper.sweep() == pytest.approx(0.5)
    assert _published(lab) == []
    clock.advance(0.5)
    sweeper.sweep()
    assert _published(lab) == [result.id]


def test_a_dead_holders_job_is_taken_and_published_in_one_pass(
    lab: Lab, body: Any, sweeper: Sweeper, clock: FakeClock
) -> None:
    result = body.delay()
    _published(lab)
    lab.store.claim(result.id, task=body.name, owner="gone", ttl=TTL)
    clock.advance(TTL)
    sweeper.sweep()
    assert _published(lab) == [result.id]
    assert lab.kinds(result)[-1] == "lease_expired"
    assert (lab.job(result).state, lab.job(result).attempts) == ("pending", 1)


def test_a_full_batch_is_followed_at_once(
    lab: Lab, body: Any, sweeper: Sweeper, clock: FakeClock
) -> None:
    results = [body.apply_async((n,), countdown=1) for n in range(BATCH + 1)]
    clock.advance(1)
    assert sweeper.sweep() == 0.0
    assert sweeper.sweep() > 0
    assert sorted(_published(lab)) == sorted(result.id for result in results)


def test_one_that_cannot_be_sent_holds_up_none(
    lab: Lab, body: Any, sweeper: Sweeper, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    broken, sound = (body.apply_async((n,), countdown=1 + n) for n in range(2))
    _send_to_a_queue_that_is_gone(lab, broken.id)
    clock.advance(2)
    sweeper.sweep()
    assert _published(lab) == [sound.id]
    assert f"message of {broken.id} cannot be published" in caplog.text
    assert sweeper.sweep() == 1.0
    clock.advance(module.REFUSED_DELAY)
    sweeper.sweep()
    assert caplog.text.count("cannot be published") == 2


def _send_to_a_queue_that_is_gone(lab: Lab, job_id: str) -> None:
    store = lab.store
    assert isinstance(store, MemoryStore)
    handover = store._handovers[job_id]
    message = replace(Message.loads(handover.message), queue="gone")
    lab.app.amqp.queues.create_missing = False
    handover.message = message.dumps()


def test_old_jobs_are_pruned(lab: Lab, body: Any, sweeper: Sweeper, clock: FakeClock) -> None:
    result = body.apply_async(ignore_result=True, lease_retention=100)
    lab.store.cancel(result.id, by="a test")
    clock.advance(101)
    sweeper.sweep()
    assert lab.store.get(result.id) is None


def test_two_sweepers_publish_each_message_once(
    lab: Lab, body: Any, sweeper: Sweeper, clock: FakeClock
) -> None:
    other = Sweeper(lab.store, Publisher(lab.app, own_connection=True), "w2")
    results = [body.apply_async((n,), countdown=1) for n in range(20)]
    clock.advance(1)
    sweeper.sweep()
    other.sweep()
    assert sorted(_published(lab)) == sorted(result.id for result in results)
    assert lab.store.workers() == ["w1", "w2"]


class Failing(MemoryStore):
    """Fails in the middle of every pass until told otherwise."""

    error: Exception | None = None
    passes = 0

    def due(self, limit: int) -> list[Due]:
        self.passes += 1
        if self.error:
            raise self.error
        return super().due(limit)


@pytest.fixture
def failing(lab: Lab) -> Iterator[tuple[Failing, Sweeper]]:
    store = Failing()
    running = Sweeper(store, Publisher(lab.app, own_connection=True), "w1", interval=0.01)
    running.start()
    yield store, running
    running.stop()


@pytest.mark.parametrize("error", [StoreUnavailable("down"), ZeroDivisionError("ours")])
def test_the_loop_survives_an_error(failing: tuple[Failing, Sweeper], error: Exception) -> None:
    store, _ = failing
    store.error = error
    seen = store.passes
    wait_for(lambda: store.passes > seen + 2, what="passes that fail")
    store.error = None
    seen = store.passes
    wait_for(lambda: store.passes > seen + 2, what="passes that succeed")


def test_a_stopped_loop_signs_off(failing: tuple[Failing, Sweeper]) -> None:
    store, running = failing
    wait_for(store.workers, what="registration")
    running.stop()
    assert store.workers() == []
    seen = store.passes
    running.stop()
    assert store.passes == seen
