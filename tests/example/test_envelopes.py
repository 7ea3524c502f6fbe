"""Strict reading of events: what is refused, and that nothing is worse than refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_example.webhooks.envelopes import read_envelope
from django_example.webhooks.refusals import Refusal

GOOD = {
    "id": "evt_1",
    "type": "order.paid",
    "createdAt": "2026-05-01T12:00:00+02:00",
    "payload": {},
}


def written(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def code_of(body: bytes) -> str:
    with pytest.raises(Refusal) as refused:
        read_envelope(body)
    assert refused.value.status == 400
    return refused.value.code


def test_an_envelope_is_read() -> None:
    envelope = read_envelope(written())
    assert (envelope.event_id, envelope.type) == ("evt_1", "order.paid")
    assert envelope.created_at == datetime(2026, 5, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize("moment", ["2026-05-01", "2026-05-01T10:00:00Z", "20260501T100000.5+0000"])
def test_times_may_be_written_in_any_form_of_iso_8601(moment: str) -> None:
    assert read_envelope(written(createdAt=moment)).created_at.date().isoformat() == "2026-05-01"


@pytest.mark.parametrize("event_id", ["ab:c/%20", "ÄÖ☃😀", "x" * 200])
def test_ids_are_any_text(event_id: str) -> None:
    assert read_envelope(written(id=event_id)).event_id == event_id


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        b'{"id": "evt_1", "id": "evt_2"}',
        b'{"payload": {"a": 1, "a": 2}}',
        b"NaN",
        b'{"payload": Infinity}',
        b'{"payload": 1e999}',
        b'{"payload": "\\ud800"}',
        b'{"\\udc00": 1}',
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b'{"payload": ' + b"9" * 5_000 + b"}",
        b"{} {}",
    ],
    ids=lambda body: body[:20],
)
def test_ambiguous_or_hostile_json_is_no_json(body: bytes) -> None:
    assert code_of(body) == "INVALID_JSON"


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "evt"},
        {"id": "x" * 201},
        {"id": 12345},
        {"id": None},
        {"id": ["evt_1"]},
        {"id": "evt_\x001"},
        {"id": "evt_1\n"},
        {"id": " evt_1"},
        {"id": "evt_1\u2003"},
        {"type": "ab"},
        {"type": {}},
        {"type": "\x7f\x7f\x7f"},
        {"createdAt": "yesterday"},
        {"createdAt": 1_777_777_777},
        {"createdAt": None},
        {"createdAt": "2026-13-01T00:00:00Z"},
        {"createdAt": "0001-01-01T00:00:00+14:00"},
        {"createdAt": "9999-12-31T23:59:59-14:00"},
    ],
    ids=repr,
)
def test_an_envelope_with_a_wrong_field_is_no_event(changes: dict[str, Any]) -> None:
    assert code_of(written(**changes)) == "INVALID_EVENT"


@pytest.mark.parametrize("key", GOOD)
def test_an_envelope_with_a_field_missing_is_no_event(key: str) -> None:
    fewer = {name: value for name, value in GOOD.items() if name != key}
    assert code_of(json.dumps(fewer).encode()) == "INVALID_EVENT"


@pytest.mark.parametrize("body", [b"[]", b"1", b"null", b'"text"'])
def test_only_an_object_is_an_event(body: bytes) -> None:
    assert code_of(body) == "INVALID_EVENT"


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.binary()
    | st.fixed_dictionaries(dict.fromkeys(GOOD, json_values)).map(json.dumps).map(str.encode)
)
def test_nothing_worse_than_a_refusal(body: bytes) -> None:
    try:
        envelope = read_envelope(body)
    except Refusal:
        return
    assert "\x00" not in envelope.event_id
