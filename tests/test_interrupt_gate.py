"""An interrupt hits the body it was meant for, or nobody: hammered from other threads."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, NoReturn

import pytest
from celery import Celery

from celery_lease import LeasedTask, current_lease
from celery_lease.errors import Interrupt, LeaseLost, StaleToken, WorkerStopping
from celery_lease.interrupts import InterruptGate
from celery_lease.lease import Grant, Lease, Terms
from celery_lease.outcome import Interrupted, Raised, outcome_of
from celery_lease.runtime import runtimes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 3000


@contextmanager
def hammering(step: Callable[[], None], threads: int = 2) -> Iterator[None]:
    """Threads that repeat `step`, switched as often as the interpreter can."""
    stop, switching = threading.Event(), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    crew = [threading.Thread(target=_repeat, args=(step, stop)) for _ in range(threads)]
    for thread in crew:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        sys.setswitchinterval(switching)
        for thread in crew:
            thread.join()


#: A generator of Python's would be ended by the first interrupt that hits inside it.
TURNS = count()


def _work() -> None:
    """Another length each time, in an order that no other thread's loop falls in step with."""
    sum(range(37 * next(TURNS) % 293))


def _repeat(step: Callable[[], None], stop: threading.Event) -> None:
    while not stop.wait(41 * next(TURNS) % 97 / 500_000):
        step()


def test_no_interrupt_leaves_an_attempt_and_no_lock_stays_held() -> None:
    app = Celery("hammered", broker="memory://", set_as_current=False)
    app.conf.lease_store = "memory://hammered"
    gates = []

    @app.task(base=LeasedTask, ignore_result=True)
    def body() -> None:
        gates.append(current_lease()._gate)
        with current_lease().shield():
            _work()
        _work()

    def ask_all() -> None:
        for runtime in runtimes_of(app):
            for holding in runtime.holdings.all():
                holding.gate.ask(LeaseLost)

    with hammering(ask_all):
        states = [body.apply().state for _ in range(ROUNDS // 3)]
    assert {"IGNORED", "SUCCESS"} >= set(states)
    assert states.count("IGNORED") > 10
    assert [gate for gate in gates if gate._mutex.locked()] == []
    assert [h for runtime in runtimes_of(app) for h in runtime.holdings.all()] == []


def _one_body(gate: InterruptGate) -> int:
    """How many interrupts a body of the plainest kind sees."""
    seen = 0
    try:
        gate.arm()
        try:
            _work()
        except Interrupt:
            seen += 1
        gate.disarm()
    except Interrupt:
        seen += 1
        gate.disarm()
    return seen


def test_at_most_one_interrupt_is_delivered_and_none_after_the_disarming() -> None:
    gates = [InterruptGate()]

    def ask() -> None:
        gates[-1].ask(LeaseLost)

    seen = []
    with hammering(ask):
        for _ in range(ROUNDS):
            gates.append(InterruptGate())
            seen.append(_one_body(gates[-1]))
            sum(range(50))
    assert set(seen) == {0, 1}
    assert not any(gate._mutex.locked() for gate in gates)


def _shielded(gate: InterruptGate) -> bool:
    """Whether an interrupt got through while the gate was closed."""
    inside = broke = False
    try:
        gate.arm()
        gate.close()
        inside = True
        _work()
        inside = False
        gate.open()
        gate.disarm()
    except Interrupt:
        broke = inside
        gate.disarm()
    return broke


def test_no_interrupt_gets_through_a_shield() -> None:
    gates = [InterruptGate()]
    with hammering(lambda: gates[-1].ask(LeaseLost)):
        for _ in range(ROUNDS):
            gates.append(InterruptGate())
            assert not _shielded(gates[-1])
    assert sum(gate.asked is not None for gate in gates) > 10


def test_what_is_asked_before_the_body_waits_for_the_arming() -> None:
    gate = InterruptGate()
    gate.ask(WorkerStopping)
    sum(range(1000))
    with pytest.raises(WorkerStopping):
        _arm_and_work(gate)
    gate.disarm()


def _arm_and_work(gate: InterruptGate) -> None:
    gate.arm()
    sum(range(1000))
    len("")


def test_the_first_asked_interrupt_is_the_one() -> None:
    gate = InterruptGate()
    gate.ask(WorkerStopping)
    gate.ask(LeaseLost)
    assert gate.asked is WorkerStopping


def test_what_is_asked_too_late_hits_nobody() -> None:
    gate = InterruptGate()
    gate.arm()
    gate.disarm()
    gate.ask(LeaseLost)
    sum(range(1000))
    assert gate.asked is LeaseLost


def test_nested_shields_let_it_through_at_the_last() -> None:
    gate = InterruptGate()
    gate.arm()
    gate.close()
    gate.close()
    gate.ask(LeaseLost)
    gate.open()
    with pytest.raises(LeaseLost):
        gate.open()
    gate.disarm()


def test_a_stale_token_is_not_hidden_by_the_interrupt_that_was_held_back() -> None:
    gate = InterruptGate()
    gate.arm()
    with pytest.raises(StaleToken):
        _refused(_lease(gate), gate)
    gate.disarm()


def _refused(lease: Lease, gate: InterruptGate) -> None:
    with lease.shield():
        gate.ask(LeaseLost)
        raise StaleToken


def _no_commit(grant: Grant) -> NoReturn:
    raise AssertionError(grant)


def _lease(gate: InterruptGate) -> Lease:
    terms = Terms(
        grant=Grant("job", 1, "owner", ttl=3.0, attempt=1, task_id="job"),
        task="task",
        key=None,
        tenant="",
        max_attempts=1,
        checkpoint=None,
        monotonic=time.monotonic,
        save_checkpoint=lambda _grant, _text: None,
    )
    return Lease(terms, gate, _no_commit)


def _cut_short(kind: type[BaseException]) -> None:
    try:
        raise kind
    finally:
        raise OSError


def test_an_error_on_the_way_out_of_an_interrupt_is_that_interrupt() -> None:
    assert isinstance(outcome_of(lambda: _cut_short(LeaseLost)), Interrupted)
    assert isinstance(outcome_of(lambda: _cut_short(ValueError)), Raised)
