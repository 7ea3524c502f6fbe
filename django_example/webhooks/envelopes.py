"""The outer form of an event, read strictly: what two parsers could read differently is refused."""

import json
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn

from django_example.webhooks.refusals import invalid_event, invalid_json

ID_LENGTHS = range(4, 201)
TYPE_LENGTHS = range(3, 201)


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the example reads of an event; the payload stays in the raw bytes."""

    event_id: str
    type: str
    created_at: datetime


def read_envelope(body: bytes) -> Envelope:
    """Read ``{"id", "type", "createdAt", "payload"}``.

    Raises:
        Refusal: ``INVALID_JSON`` or ``INVALID_EVENT``.
    """
    document = read_json(body)
    if not isinstance(document, dict):
        raise invalid_event("An event is a JSON object.")
    if "payload" not in document:
        raise invalid_event("An event has a payload.")
    return Envelope(
        event_id=_name(document, "id", ID_LENGTHS),
        type=_name(document, "type", TYPE_LENGTHS),
        created_at=_moment(document.get("createdAt")),
    )


def read_json(body: bytes) -> object:
    """Parse one JSON document that everybody reads alike.

    Beyond the grammar it refuses a key that occurs twice, NaN and infinities,
    surrogates without their other half, numbers too long to convert and
    nesting too deep to walk.

    Raises:
        Refusal: ``INVALID_JSON``.
    """
    try:
        document: object = json.loads(
            body.decode(), object_pairs_hook=_unique, parse_constant=_not_a_number
        )
        # Writing it again shows what reading lets pass: an escaped surrogate without
        # its other half, a number beyond every float.
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError as error:
        raise invalid_json("The document is nested too deeply.") from error
    except ValueError as error:
        raise invalid_json("The body is not one unambiguous JSON document in UTF-8.") from error
    return document


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        message = "a key occurs twice"
        raise ValueError(message)
    return members


def _not_a_number(constant: str) -> NoReturn:
    raise ValueError(constant)


def _name(document: dict[str, object], key: str, lengths: range) -> str:
    value = document.get(key)
    if not isinstance(value, str) or len(value) not in lengths:
        raise invalid_event(f"{key} is a text of {lengths.start} to {lengths.stop - 1} characters.")
    # PostgreSQL stores no NUL, and MySQL takes "a" and "a " for equal.
    if value != value.strip() or any(
        unicodedata.category(character) == "Cc" for character in value
    ):
        raise invalid_event(f"{key} has no control characters and no blanks around it.")
    return value


def _moment(value: object) -> datetime:
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
        # In UTC already here, since year 1 or 9999 may leave the calendar on the way.
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise invalid_event("createdAt is a time in ISO 8601.") from error
