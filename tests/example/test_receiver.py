"""The demo's receiver: it must not be fooled, or the demo would prove nothing."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from django_example.demo.ledger import Ledger
from django_example.demo.processes import household, listening_socket
from django_example.webhooks import signatures

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = signatures.new_secret()
FAULTS = {"evt_down": {"failures": 2}, "evt_late": {"failures": 1, "applied_first": True}}


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[httpx2.Client]:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"secrets": {"acme": [SECRET]}, "faults": FAULTS}))
    with household(tmp_path, dict(os.environ)) as children, listening_socket() as listening:
        children.start_receiver(listening, tmp_path / "ledger.sqlite3", plan)
        base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with httpx2.Client(base_url=base, timeout=30, trust_env=False) as client:
            yield client


def deliver(client: httpx2.Client, event: str, *, key: str = "k", **headers: str) -> int:
    body = json.dumps({"id": event}).encode()
    sent = {
        "Idempotency-Key": key,
        "Fencing-Token": "1",
        signatures.OUTGOING_HEADER: signatures.sign([SECRET], int(time.time()), body),
        **headers,
    }
    return client.post("/hooks/acme", content=body, headers=sent).status_code


def seen(client: httpx2.Client) -> list[dict[str, Any]]:
    deliveries: list[dict[str, Any]] = client.get("/applied").json()["deliveries"]
    return deliveries


def test_a_key_is_applied_once_however_often_it_comes(receiver: httpx2.Client) -> None:
    assert [deliver(receiver, "evt_1") for _ in range(3)] == [200] * 3
    expected = {"key": "k", "tenant": "acme", "event": "evt_1", "requests": 3, "applied": 1}
    assert seen(receiver) == [expected]


def test_it_is_down_as_often_as_it_is_told(receiver: httpx2.Client) -> None:
    assert [deliver(receiver, "evt_down") for _ in range(3)] == [503, 503, 200]
    assert seen(receiver)[0]["applied"] == 1


def test_it_may_apply_and_fail_all_the_same(receiver: httpx2.Client) -> None:
    assert deliver(receiver, "evt_late") == 503
    assert seen(receiver)[0]["applied"] == 1
    assert deliver(receiver, "evt_late") == 200
    assert seen(receiver)[0]["applied"] == 1


def test_a_wrong_signature_is_not_taken(receiver: httpx2.Client) -> None:
    assert deliver(receiver, "evt_1", **{signatures.OUTGOING_HEADER: "t=1,v1=" + "ab" * 32}) == 401
    assert deliver(receiver, "evt_1", **{signatures.OUTGOING_HEADER: "nonsense"}) == 401
    assert seen(receiver) == []


def test_the_ledger_would_show_an_effect_that_was_applied_twice(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite3")
    ledger.note_request("k", "acme", "evt_1", "1")
    assert ledger.apply_once("k")
    with ledger._transaction() as database:
        database.execute("DELETE FROM known_key")
    assert ledger.apply_once("k")
    assert ledger.summary()[0]["applied"] == 2
