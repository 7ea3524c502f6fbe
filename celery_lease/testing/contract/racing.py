"""What holds when callers arrive at the same moment; real threads, no luck needed to pass."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from celery_lease.errors import StaleToken
from celery_lease.job import Busy, Claimed, State
from celery_lease.stores.base import PUBLISH_HOLD, JobStore
from celery_lease.testing.contract.scene import (
    OTHER,
    PAST_TTL,
    Elapse,
    at_once,
    claim,
    due_ids,
    get,
    hold_new,
    new,
    submit,
)

if TYPE_CHECKING:
    from celery_lease.lease import Grant

MANY = [f"job{n}" for n in range(20)]


class RacingContract:
    """Tests with several threads on one store."""

    def test_one_of_many_claims_wins(self, store: JobStore) -> None:
        submit(store)
        answers = at_once(store, [partial(claim, store, "a", f"host:{n}:x:1") for n in range(8)])
        won = [answer for answer in answers if isinstance(answer, Claimed)]
        assert len(won) == 1
        assert all(isinstance(answer, Busy) for answer in answers if answer not in won)
        assert (get(store).attempts, get(store).token) == (1, won[0].grant.token)

    def test_one_of_many_takes_an_ended_lease_over(self, store: JobStore, elapse: Elapse) -> None:
        hold_new(store)
        elapse(PAST_TTL)
        answers = at_once(store, [partial(claim, store, "a", f"host:{n}:x:1") for n in range(8)])
        assert sum(isinstance(answer, Claimed) for answer in answers) <= 1
        assert get(store).attempts in (1, 2)

    def test_one_of_many_submissions_creates(self, store: JobStore) -> None:
        calls = [partial(submit, store, new(f"s{n}", key="k")) for n in range(8)]
        answers = at_once(store, calls)
        assert sum(answer.created for answer in answers) == 1
        assert len({answer.job.id for answer in answers}) == 1
        assert {get(store, answer.task_id).id for answer in answers} == {answers[0].job.id}

    def test_one_id_submitted_by_many_is_one_job(self, store: JobStore) -> None:
        answers = at_once(store, [partial(submit, store) for _ in range(8)])
        assert sum(answer.created for answer in answers) == 1

    def test_due_hands_no_id_out_twice(self, store: JobStore, elapse: Elapse) -> None:
        for task_id in MANY:
            submit(store, new(task_id))
        elapse(PUBLISH_HOLD + 1.0)
        handed_out = at_once(store, [partial(_drain, store)] * 4)
        handed_out.append(_drain(store))
        assert sorted(chain.from_iterable(handed_out)) == sorted(MANY)

    def test_expire_reports_no_job_twice(self, store: JobStore, elapse: Elapse) -> None:
        for task_id in MANY:
            hold_new(store, new(task_id))
        elapse(PAST_TTL)
        taken = at_once(store, [partial(_expire_all, store)] * 4)
        taken.append(_expire_all(store))
        assert sorted(chain.from_iterable(taken)) == sorted(MANY)

    def test_joining_while_the_job_ends_is_always_handed_over(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        for n in range(10):
            grant = hold_new(store, new(f"first{n}", key=f"k{n}"))
            join = partial(_join, store, f"second{n}", f"k{n}")
            at_once(store, [partial(_finish, store, grant), join])
        elapse(PUBLISH_HOLD + 1.0)
        assert due_ids(store) == {f"second{n}" for n in range(10)}

    def test_a_late_success_and_a_successor_exclude_each_other(
        self, store: JobStore, elapse: Elapse
    ) -> None:
        grants = [hold_new(store, new(task_id)) for task_id in MANY[:10]]
        elapse(PAST_TTL)
        for grant in grants:
            late = partial(_succeeds, store, grant)
            succeeded, taken_over = at_once(store, [late, partial(_takes_over, store, grant)])
            assert not (succeeded and taken_over)
            assert succeeded == (get(store, grant.job_id).state is State.SUCCEEDED)

    def test_renewal_and_expiry_exclude_each_other(self, store: JobStore, elapse: Elapse) -> None:
        grants = [hold_new(store, new(task_id)) for task_id in MANY[:10]]
        elapse(PAST_TTL)
        renewals = [partial(_renews, store, grant) for grant in grants]
        renewed = at_once(store, [*renewals, partial(_expires, store)])
        assert not any(renewed[:-1])


def _drain(store: JobStore) -> list[str]:
    handed_out: list[str] = []
    while batch := store.due(3):
        handed_out += [due.task_id for due in batch]
    return handed_out


def _expire_all(store: JobStore) -> list[str]:
    taken: list[str] = []
    while batch := store.expire(3):
        taken += [lost.job_id for lost in batch]
    return taken


def _finish(store: JobStore, grant: Grant) -> None:
    store.succeed(grant, "1")
    store.settle(grant)


def _join(store: JobStore, task_id: str, key: str) -> None:
    submit(store, new(task_id, key=key))


def _succeeds(store: JobStore, grant: Grant) -> bool:
    try:
        store.succeed(grant, "1")
    except StaleToken:
        return False
    return True


def _takes_over(store: JobStore, grant: Grant) -> bool:
    return isinstance(claim(store, grant.job_id, OTHER), Claimed)


def _renews(store: JobStore, grant: Grant) -> bool:
    return not store.renew([grant]).lost


def _expires(store: JobStore) -> bool:
    return bool(store.expire(100))
