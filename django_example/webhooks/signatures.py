"""Signatures of webhooks: the default scheme, and Standard Webhooks for what is sent.

The default scheme is one header, ``Webhook-Signature: t=<unix>,v1=<hex>[,v1=<hex>…]``,
whose digests are HMAC-SHA256 over ``<t>.<raw body>`` under the secret's text.
Several ``v1`` allow a sender to sign with the old and the new secret while
secrets are being rotated.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets as randomness
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

HEADER = "Webhook-Signature"
# On the way out the plain name belongs to Standard Webhooks, since names of
# headers have no case; libraries for the default scheme take a value, not a name.
OUTGOING_HEADER = "X-Webhook-Signature"
HEADER_LIMIT = 1024
DIGEST_LIMIT = 8
SECRET_PREFIX = "whsec_"  # noqa: S105 - a marker, not a secret
SECRET_BYTES = range(16, 65)
# ASCII digits only, since ``\d`` takes the digits of every script.
TIME = re.compile(r"[0-9]{1,12}")
DIGEST = re.compile(r"[0-9a-fA-F]{64}")


class MalformedSignature(ValueError):
    """The signature header cannot be read; the message says where."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a ``Webhook-Signature`` header claims.

    Attributes:
        time: The digits received. They are signed as they are, leading zeros included.
        digests: The claimed digests, 32 bytes each.
    """

    time: str
    digests: tuple[bytes, ...]

    def is_fresh(self, now: float, tolerance: float) -> bool:
        """Tell whether the time is within ``tolerance`` seconds of ``now``, before or after."""
        return abs(now - int(self.time)) <= tolerance

    def is_by(self, secrets: Iterable[str], body: bytes) -> bool:
        """Tell whether one of ``secrets`` signed ``body``, comparing every pair."""
        expected = [digest(secret, self.time, body) for secret in secrets]
        matches = [
            hmac.compare_digest(ours, theirs) for ours in expected for theirs in self.digests
        ]
        return any(matches)


def parse(header: str) -> Signature:
    """Read a signature header.

    Raises:
        MalformedSignature: If it is too long, has not exactly one time, or has
            no digest, too many, or one that is not 64 hexadecimal digits.
    """
    if len(header) > HEADER_LIMIT:
        message = f"The signature header has more than {HEADER_LIMIT} characters."
        raise MalformedSignature(message)
    items = [_item(text) for text in header.split(",")]
    times = [value for key, value in items if key == "t"]
    digests = [value for key, value in items if key == "v1"]
    return Signature(_only_time(times), _all_digests(digests))


def _item(text: str) -> tuple[str, str]:
    key, equals, value = text.strip(" \t").partition("=")
    if not equals:
        message = "The signature header is not a list of key=value."
        raise MalformedSignature(message)
    return key, value


def _only_time(times: Sequence[str]) -> str:
    if len(times) != 1 or not TIME.fullmatch(times[0]):
        message = "The signature header needs exactly one t of 1 to 12 digits."
        raise MalformedSignature(message)
    return times[0]


def _all_digests(digests: Sequence[str]) -> tuple[bytes, ...]:
    if not 1 <= len(digests) <= DIGEST_LIMIT or not all(map(DIGEST.fullmatch, digests)):
        message = f"The signature header needs 1 to {DIGEST_LIMIT} v1 of 64 hexadecimal digits."
        raise MalformedSignature(message)
    return tuple(map(bytes.fromhex, digests))


def digest(secret: str, time: str, body: bytes) -> bytes:
    """Return the 32 bytes by which ``secret`` signs ``body`` at ``time``."""
    return hmac.digest(secret.encode(), time.encode() + b"." + body, hashlib.sha256)


def sign(secrets: Iterable[str], time: int, body: bytes) -> str:
    """Return the ``Webhook-Signature`` header for ``body``, with one digest per secret."""
    digests = [f"v1={digest(secret, str(time), body).hex()}" for secret in secrets]
    return ",".join([f"t={time}", *digests])


def standard_headers(
    secrets: Iterable[str], message_id: str, time: int, body: bytes
) -> dict[str, str]:
    """Return the three headers of Standard Webhooks 1.0 for ``body``.

    Args:
        secrets: Secrets as made by ``new_secret``.
        message_id: The same for every attempt to send this message; without a dot,
            because dots part the signed fields.
        time: Unix time of this attempt.
        body: The bytes that are sent.
    """
    signed = f"{message_id}.{time}.".encode() + body
    signatures = [hmac.digest(secret_key(secret), signed, hashlib.sha256) for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(time),
        "webhook-signature": " ".join(
            f"v1,{base64.b64encode(value).decode()}" for value in signatures
        ),
    }


def new_secret() -> str:
    """Return a fresh secret, in the form that Standard Webhooks libraries read."""
    return SECRET_PREFIX + base64.b64encode(randomness.token_bytes(32)).decode()


def secret_key(secret: str) -> bytes:
    """Return the key bytes inside a secret's text.

    Raises:
        ValueError: If the text is not ``whsec_`` and base64 of 16 to 64 bytes.
    """
    if not secret.startswith(SECRET_PREFIX):
        message = f"A secret starts with {SECRET_PREFIX}."
        raise ValueError(message)
    return _decoded_key(secret.removeprefix(SECRET_PREFIX))


def _decoded_key(text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        message = "A secret ends with base64."
        raise ValueError(message) from error
    if len(key) not in SECRET_BYTES:
        message = f"A secret holds {SECRET_BYTES.start} to {SECRET_BYTES.stop - 1} bytes."
        raise ValueError(message)
    return key
