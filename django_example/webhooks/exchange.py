"""What came of one POST, as a value: judged, stored and shown without a network at hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Failure(StrEnum):
    """Why there is no complete answer; the values are stored and shown."""

    INVALID_URL = "DELIVERY_INVALID_URL"
    UNSAFE = "UNSAFE_DESTINATION"
    DNS = "DELIVERY_DNS"
    CONNECT = "DELIVERY_CONNECT"
    TLS = "DELIVERY_TLS"
    TIMEOUT = "DELIVERY_TIMEOUT"
    BROKEN = "DELIVERY_BROKEN"
    PROTOCOL = "DELIVERY_PROTOCOL"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One POST and its answer, as far as it got.

    Attributes:
        status: HTTP status, there as soon as the answer's head was.
        headers: The answer's headers, names in lower case.
        body: The first bytes of the answer, at most the client's cap.
        address: The address that was dialled, empty before that.
        failure: Why the answer is not complete, or None.
        connected_ms: Milliseconds until the connection stood, TLS not included.
        answered_ms: Milliseconds until the answer's head was there.
        total_ms: Milliseconds in all.
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    address: str = ""
    failure: Failure | None = None
    connected_ms: int | None = None
    answered_ms: int | None = None
    total_ms: int = 0
