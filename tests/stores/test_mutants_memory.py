"""Each guard of the store removed must make a named test of the contract fail.

A test nobody has seen failing guards nothing. A row is: the guard as `memory.py`
reads, what stands there without it, the test that must notice, and its parameters.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from celery_lease.stores.memory import MemoryStore
from celery_lease.testing.clock import FakeClock
from celery_lease.testing.contract import StoreContract
from tests.stores.mutant import mutated

if TYPE_CHECKING:
    from celery_lease.stores.base import JobStore


@dataclass(frozen=True)
class Mutant:
    guard: str
    without: str
    test: str
    arguments: dict[str, str] = field(default_factory=dict)


OWNS = "held.token == grant.token and held.owner == grant.owner"
WITHOUT_TOKEN = "held.owner == grant.owner"
WITHOUT_OWNER = "held.token == grant.token"
RENEW = "if lease and self._owns(lease, grant) and lease.expires_at > now:"
CHECK = "if kept and kept.job.state is state and self._owns(kept.job, grant):"
SETTLE = "if kept is None or not kept.job.terminal or not self._owns(kept.job, grant):"
OPEN = "return handover.settled_at is None and not (lease and lease.expires_at > now)"
STALE = "test_a_stale_write_is_refused_and_recorded"

MUTANTS = [
    # -- who may write -----------------------------------------------------
    Mutant(OWNS, WITHOUT_TOKEN, "test_another_token_writes_nothing", {"write": "succeed"}),
    Mutant(OWNS, WITHOUT_OWNER, "test_another_owner_writes_nothing", {"write": "succeed"}),
    Mutant(
        CHECK,
        "if kept and kept.job.state is state:",
        STALE,
        {"write": "fail", "loss": "taken over"},
    ),
    Mutant(
        CHECK,
        "if kept and self._owns(kept.job, grant):",
        STALE,
        {"write": "fail", "loss": "succeeded"},
    ),
    Mutant(
        "self.refused(grant, what)", "pass", STALE, {"write": "succeed", "loss": "owner expired"}
    ),
    # -- renewing ----------------------------------------------------------
    Mutant(OWNS, WITHOUT_TOKEN, "test_renew_refuses_another_token"),
    Mutant(OWNS, WITHOUT_OWNER, "test_renew_refuses_another_owner"),
    Mutant(
        RENEW, "if lease and self._owns(lease, grant):", "test_renew_never_revives_an_ended_lease"
    ),
    Mutant(RENEW, "if lease and lease.expires_at > now:", "test_renew_refuses_who_was_replaced"),
    # -- settling ----------------------------------------------------------
    Mutant(
        SETTLE, "if kept is None or not kept.job.terminal:", "test_settle_refuses_who_was_replaced"
    ),
    Mutant(
        SETTLE, "if kept is None or not self._owns(kept.job, grant):", "test_settle_needs_an_end"
    ),
    Mutant(
        'self._set(handover.job_id, owner="")',
        "pass",
        "test_settle_refuses_who_lost_the_job",
        {"loss": "cancelled"},
    ),
    Mutant(
        'self._set(job_id, owner="")',
        "pass",
        "test_settle_refuses_the_holder_of_a_last_attempt_that_expired",
    ),
    Mutant(
        "handover.settle_attempts >= job.max_attempts",
        "False",
        "test_a_hand_over_that_keeps_failing_is_given_up",
    ),
    Mutant("self._wake_unsettled(handover.job_id)", "pass", "test_settling_one_wakes_the_others"),
    # -- claiming ----------------------------------------------------------
    Mutant("if lease and lease.expires_at > now:", "if False:", "test_claim_of_a_held_job_is_busy"),
    Mutant("next_token(job.token, now)", "job.attempts + 1", "test_tokens_only_grow"),
    Mutant("if job.available_at > now:", "if False:", "test_claim_before_the_time_is_not_due"),
    Mutant("self._cancel_expired(job_id, now)", "pass", "test_claim_of_an_expired_job_cancels_it"),
    Mutant(
        "if self._jobs[job_id].job.task != task:",
        "if False:",
        "test_claim_for_another_task_is_refused",
    ),
    # -- taking away -------------------------------------------------------
    Mutant("if lease.expires_at <= now", "if True", "test_expire_leaves_live_leases_alone"),
    Mutant(
        'state=State.PENDING, owner="", available_at=now)',
        "state=State.PENDING, available_at=now)",
        "test_expire_makes_the_job_claimable",
    ),
    Mutant(
        "if job.attempts >= job.max_attempts:",
        "if False:",
        "test_expire_of_the_last_attempt_is_death",
    ),
    # -- publishing and keeping --------------------------------------------
    Mutant(
        OPEN,
        "return handover.settled_at is None",
        "test_an_outcome_is_published_only_without_a_live_lease",
    ),
    Mutant(
        OPEN,
        "return not (lease and lease.expires_at > now)",
        "test_a_settled_outcome_is_never_due",
    ),
    Mutant(
        "self.next_publish_at = now + PUBLISH_HOLD", "pass", "test_due_holds_what_it_handed_out"
    ),
    Mutant(
        "if handover and handover.handed_out:",
        "if handover:",
        "test_a_late_published_does_not_postpone_a_retry",
    ),
    Mutant("not unsettled", "True", "test_prune_spares_a_job_with_an_unsettled_duplicate"),
    Mutant("kept.keep_until <= now", "True", "test_prune_waits_for_the_retention"),
    # -- submitting --------------------------------------------------------
    Mutant("self._refuse_conflicts(jobs)", "pass", "test_key_conflict_leaves_the_first_untouched"),
    Mutant("if first != new.fingerprint:", "if False:", "test_a_batch_in_conflict_leaves_nothing"),
]


def run(test: str, store: JobStore, clock: FakeClock, arguments: dict[str, str]) -> None:
    call = getattr(StoreContract(), test)
    fixtures: dict[str, Any] = {"store": store, "elapse": clock.advance, **arguments}
    call(**{name: fixtures[name] for name in inspect.signature(call).parameters})


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.test)
def test_a_removed_guard_is_noticed(mutant: Mutant) -> None:
    clock = FakeClock()
    run(mutant.test, MemoryStore(clock), clock, mutant.arguments)
    store = mutated(clock, mutant.guard, mutant.without)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run(mutant.test, store, clock, mutant.arguments)
