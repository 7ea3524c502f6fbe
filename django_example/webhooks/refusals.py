"""Why an event was not taken, as the sender is told."""

from dataclasses import dataclass


@dataclass(eq=False)
class Refusal(Exception):
    """A request that gets ``{"error": {"code", "message"}}`` instead of a receipt.

    Attributes:
        status: HTTP status, 4xx for what the sender did, 503 for what we cannot do now.
        code: Upper-case word that programs may rely on.
        message: One sentence for people.
    """

    status: int
    code: str
    message: str

    def as_json(self) -> dict[str, dict[str, str]]:
        """Return the body of the answer."""
        return {"error": {"code": self.code, "message": self.message}}


def too_large(limit: int) -> Refusal:
    """Refuse a body of more than ``limit`` bytes."""
    return Refusal(400, "TOO_LARGE", f"An event may have at most {limit} bytes.")


def malformed_signature(reason: str) -> Refusal:
    """Refuse a signature header that cannot be read."""
    return Refusal(400, "MALFORMED_SIGNATURE", reason)


def invalid_signature() -> Refusal:
    """Refuse what this tenant did not sign just now.

    One answer for an unknown tenant, a wrong signature and a stale time, so
    that nobody can find out which tenants exist.
    """
    return Refusal(
        401, "INVALID_SIGNATURE", "The signature does not fit this tenant, body and time."
    )


def invalid_json(reason: str) -> Refusal:
    """Refuse a body that is no JSON document."""
    return Refusal(400, "INVALID_JSON", reason)


def invalid_event(reason: str) -> Refusal:
    """Refuse a JSON document that is no event."""
    return Refusal(400, "INVALID_EVENT", reason)


def unknown_source() -> Refusal:
    """Refuse a kind of sender that nothing here understands."""
    return Refusal(404, "UNKNOWN_SOURCE", "No such source of events.")


def unavailable() -> Refusal:
    """Ask the sender to come back, because nothing could be stored."""
    return Refusal(
        503, "UNAVAILABLE", "Events cannot be stored at the moment. Send this one again."
    )
