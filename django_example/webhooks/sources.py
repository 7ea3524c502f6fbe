"""The kinds of senders: where each puts its signature and how it writes an event."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from django_example.webhooks import signatures
from django_example.webhooks.envelopes import Envelope, read_envelope
from django_example.webhooks.refusals import malformed_signature, unknown_source


class Claim(Protocol):
    """What a request's headers claim about time and signer."""

    def is_fresh(self, now: float, tolerance: float) -> bool:
        """Tell whether the claimed time is within ``tolerance`` seconds of ``now``."""

    def is_by(self, secrets: Iterable[str], body: bytes) -> bool:
        """Tell whether one of ``secrets`` signed ``body``."""


class Source(Protocol):
    """One kind of sender."""

    def read_claim(self, headers: Mapping[str, str]) -> Claim:
        """Read the signature headers, or raise the ``Refusal`` of a malformed one."""

    def read_envelope(self, headers: Mapping[str, str], body: bytes) -> Envelope:
        """Read the event, or raise the ``Refusal`` that says what is wrong with it."""


class DefaultSource:
    """Senders that follow the scheme of ``signatures``."""

    def read_claim(self, headers: Mapping[str, str]) -> Claim:
        """Read the ``Webhook-Signature`` header."""
        try:
            return signatures.parse(headers.get(signatures.HEADER, ""))
        except signatures.MalformedSignature as error:
            raise malformed_signature(str(error)) from error

    def read_envelope(self, headers: Mapping[str, str], body: bytes) -> Envelope:  # noqa: ARG002 - other sources keep the id in a header
        """Read the event from the body alone."""
        return read_envelope(body)


SOURCES: Mapping[str, Source] = {"default": DefaultSource()}


def find_source(name: str) -> Source:
    """Return the source of that name, or raise the ``Refusal`` for an unknown one."""
    if name not in SOURCES:
        raise unknown_source()
    return SOURCES[name]
