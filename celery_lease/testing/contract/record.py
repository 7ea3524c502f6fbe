"""The record of a job: its events, and that every change of state is an allowed one."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from celery_lease.errors import LeaseError
from celery_lease.job import TRANSITIONS, Claimed, Kind, State, Unsettled
from celery_lease.testing.contract.scene import (
    FAILURE,
    OWNER,
    PAST_TTL,
    Elapse,
    claim,
    events_of,
    finish,
    get,
    hold,
    hold_new,
    kinds,
    near,
    new,
    submit,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_lease.lease import Grant
    from celery_lease.stores.base import JobStore

#: The state that an event says its job is in from now on; other kinds change none.
STATE_AFTER = {
    Kind.CREATED: State.PENDING,
    Kind.CLAIMED: State.RUNNING,
    Kind.RELEASED: State.PENDING,
    Kind.DEFERRED: State.PENDING,
    Kind.LEASE_EXPIRED: State.PENDING,
    Kind.FORCE_EXPIRED: State.PENDING,
    Kind.RETRY_SCHEDULED: State.RETRY_WAIT,
    Kind.WAITING: State.WAITING,
    Kind.SUCCEEDED: State.SUCCEEDED,
    Kind.REPLACED: State.SUCCEEDED,
    Kind.DEAD: State.DEAD,
    Kind.CANCELLED: State.CANCELLED,
    Kind.REPLAYED: State.PENDING,
}


class RecordContract:
    """Tests of `events`."""

    def test_the_record_tells_the_story_in_order(self, store: JobStore, elapse: Elapse) -> None:
        store.release(hold_new(store, new("a", key="k")))
        store.release(hold(store), delay=1.0)
        elapse(2.0)
        submit(store, new("b", key="k"))
        store.fail(hold(store), FAILURE, retry_in=1.0)
        elapse(2.0)
        hold(store)
        elapse(PAST_TTL)
        store.expire(10)
        grant = hold(store)
        store.succeed(grant, "1")
        store.settle(grant)
        assert kinds(store) == [
            Kind.CREATED,
            Kind.CLAIMED,
            Kind.RELEASED,
            Kind.CLAIMED,
            Kind.DEFERRED,
            Kind.DUPLICATE_SUBMITTED,
            Kind.CLAIMED,
            Kind.RETRY_SCHEDULED,
            Kind.CLAIMED,
            Kind.LEASE_EXPIRED,
            Kind.CLAIMED,
            Kind.SUCCEEDED,
            Kind.SETTLED,
        ]

    def test_events_carry_job_time_token_and_owner(self, store: JobStore) -> None:
        grant = finish(store)
        created, *later = store.events("a")
        assert (created.job_id, created.token, created.owner) == ("a", 0, "")
        for event in later:
            assert (event.job_id, event.token, event.owner) == ("a", grant.token, OWNER)
        assert all(near(event.at, get(store).created_at) for event in later)

    def test_claims_are_numbered(self, store: JobStore) -> None:
        store.fail(hold_new(store), FAILURE, retry_in=0.0)
        hold(store)
        claims = [event.details for event in events_of(store, Kind.CLAIMED)]
        assert claims == [{"attempt": 1}, {"attempt": 2}]

    def test_events_are_read_from_the_oldest(self, store: JobStore) -> None:
        finish(store)
        assert [event.kind for event in store.events("a", limit=2)] == [Kind.CREATED, Kind.CLAIMED]
        assert store.events("unknown") == []

    def test_events_belong_to_one_job(self, store: JobStore) -> None:
        finish(store)
        submit(store, new("b"))
        assert kinds(store, "b") == [Kind.CREATED]

    def test_renewals_are_recorded_only_when_all_is(self, store: JobStore) -> None:
        plain, audited = hold_new(store), hold_new(store, replace(new("b"), audit="all"))
        store.renew([plain, audited])
        assert kinds(store) == [Kind.CREATED, Kind.CLAIMED]
        assert kinds(store, "b") == [Kind.CREATED, Kind.CLAIMED, Kind.LEASE_RENEWED]

    def test_audit_can_be_off(self, store: JobStore) -> None:
        finish(store, replace(new(), audit="off"))
        assert store.events("a") == []

    @pytest.mark.parametrize("seed", range(8))
    def test_every_change_of_state_is_allowed_and_recorded(
        self, store: JobStore, elapse: Elapse, seed: int
    ) -> None:
        """Random calls, many of them refused, over the grants of all holders so far."""
        walk = _Walk(store, elapse, random.Random(seed))  # noqa: S311 - repeatable, not secret
        for _ in range(60):
            walk.step()
        assert walk.disallowed() == []
        assert walk.recorded() == walk.seen


class _Walk:
    """One job under random calls."""

    def __init__(self, store: JobStore, elapse: Elapse, chance: random.Random) -> None:
        self._store, self._elapse, self._chance = store, elapse, chance
        submit(store, replace(new("a", key="k"), max_attempts=3))
        self._grants: list[Grant] = []
        self.seen = [State.PENDING]

    def step(self) -> None:
        """Make one call, and note the state when it changed."""
        before = len(self._store.events("a"))
        with contextlib.suppress(LeaseError):
            self._chance.choice(self._calls())()
        self._note(before)

    def _note(self, known: int) -> None:
        fresh = self._store.events("a")[known:]
        passed = [STATE_AFTER[event.kind] for event in fresh if event.kind in STATE_AFTER]
        self.seen += passed
        assert get(self._store).state is self.seen[-1]

    def disallowed(self) -> list[tuple[State, State]]:
        """Changes that the table of transitions does not know."""
        steps = zip(self.seen, self.seen[1:], strict=False)
        return [(old, next_) for old, next_ in steps if next_ not in TRANSITIONS[old]]

    def recorded(self) -> list[State]:
        """The states that the whole record tells of."""
        return [STATE_AFTER[kind] for kind in kinds(self._store) if kind in STATE_AFTER]

    def _calls(self) -> list[Callable[[], object]]:
        store = self._store
        calls: list[Callable[[], object]] = [
            self._claim,
            self._claim,
            lambda: self._elapse(PAST_TTL),
            lambda: store.expire(10),
            lambda: store.expire_owner(OWNER, "exit"),
            lambda: store.cancel("a", by="walk"),
            lambda: store.replay("a", by="walk"),
            lambda: store.submit([new(f"dup{len(self.seen)}", key="k")]),
        ]
        if self._grants:
            calls += self._writes(self._chance.choice(self._grants[-2:]))
        return calls

    def _writes(self, grant: Grant) -> list[Callable[[], object]]:
        store = self._store
        return [
            lambda: store.renew([grant]),
            lambda: store.fail(grant, FAILURE, retry_in=0.0),
            lambda: store.fail(grant, FAILURE, retry_in=None),
            lambda: store.release(grant),
            lambda: store.save_checkpoint(grant, "1"),
            # Seldom, for nothing leads on from a success.
            lambda: self._chance.randrange(5) or store.succeed(grant, "1"),
            lambda: store.settle(grant),
        ]

    def _claim(self) -> None:
        answer = claim(self._store)
        if isinstance(answer, Claimed | Unsettled):
            self._grants.append(answer.grant)
