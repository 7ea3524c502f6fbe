"""The signature schemes, against the libraries that senders and receivers really use."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook
from stripe import WebhookSignature

from django_example.webhooks import signatures
from django_example.webhooks.signatures import MalformedSignature, parse, sign, standard_headers

SECRET = signatures.new_secret()
BODY = '{"id": "evt_1", "text": "naïve ☃"}'.encode()
DIGEST = "ab" * 32
moments = st.integers(0, 10**11)
texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts, moments)
def test_a_digest_is_the_one_of_stripe(text: str, moment: int) -> None:
    theirs = WebhookSignature._compute_signature(f"{moment}.{text}", SECRET)
    assert signatures.digest(SECRET, str(moment), text.encode()).hex() == theirs


def test_stripe_accepts_what_is_signed_here() -> None:
    header = sign([SECRET], int(time.time()), BODY)
    assert WebhookSignature.verify_header(BODY.decode(), header, SECRET, tolerance=300)


@given(texts, moments)
def test_a_standard_signature_is_the_one_of_standardwebhooks(text: str, moment: int) -> None:
    headers = standard_headers([SECRET], "msg_1", moment, text.encode())
    theirs = Webhook(SECRET).sign("msg_1", datetime.fromtimestamp(moment, UTC), text)
    assert headers["webhook-signature"] == theirs


def test_standardwebhooks_accepts_a_header_of_two_secrets_from_either_side() -> None:
    old, new = signatures.new_secret(), signatures.new_secret()
    headers = standard_headers([new, old], "msg_1", int(time.time()), BODY)
    assert Webhook(old).verify(BODY, headers) == Webhook(new).verify(BODY, headers)


def test_a_signature_is_known_by_any_of_the_secrets() -> None:
    old, new = signatures.new_secret(), signatures.new_secret()
    assert parse(sign([old], 1, BODY)).is_by([new, old], BODY)
    assert parse(sign([new, old], 1, BODY)).is_by([old], BODY)
    assert not parse(sign([old], 1, BODY)).is_by([new], BODY)
    assert not parse(sign([old], 1, BODY)).is_by([], BODY)
    assert not parse(sign([old], 1, BODY)).is_by([old], BODY + b" ")


def test_the_digits_received_are_the_ones_that_were_signed() -> None:
    digest = signatures.digest(SECRET, "007", BODY).hex()
    assert parse(f"t=007,v1={digest}").is_by([SECRET], BODY)
    assert not parse(f"t=7,v1={digest}").is_by([SECRET], BODY)


@pytest.mark.parametrize(
    ("offset", "fresh"), [(-301, False), (-299, True), (2, True), (301, False)]
)
def test_time_may_be_off_both_ways(offset: int, fresh: bool) -> None:  # noqa: FBT001
    assert parse(sign([SECRET], 1_000_000 + offset, BODY)).is_fresh(1_000_000, 300) is fresh


@pytest.mark.parametrize(
    "header",
    [
        f"t=1,v1={DIGEST}",
        f"v1={DIGEST},t=1",
        f"t=1, v1={DIGEST}",
        f"t=123456789012,v1={DIGEST},v0=whatever,x==",
        f"t=1,v1={DIGEST.upper()}",
        "t=1," + ",".join([f"v1={DIGEST}"] * 8),
    ],
)
def test_wellformed_headers_are_read(header: str) -> None:
    assert parse(header).digests[0] == bytes.fromhex(DIGEST)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "t=1",
        f"v1={DIGEST}",
        f"t=1,t=1,v1={DIGEST}",
        f"t=,v1={DIGEST}",
        f"t=1234567890123,v1={DIGEST}",
        f"t=-1,v1={DIGEST}",
        f"t=1.5,v1={DIGEST}",
        f"t=١٢,v1={DIGEST}",
        f"t=1,v1={DIGEST[:-1]}",
        f"t=1,v1={DIGEST[:-1]}g",
        f"t=1,v1={DIGEST[:-1]}é",
        f"t=1,v1={DIGEST},",
        f"t=1,v1={DIGEST},nonsense",
        "t=1," + ",".join([f"v1={DIGEST}"] * 9),
        f"t=1,v1={DIGEST},x=" + "y" * 1000,
    ],
)
def test_malformed_headers_are_refused(header: str) -> None:
    with pytest.raises(MalformedSignature):
        parse(header)


@given(st.text())
def test_no_header_does_more_harm_than_being_malformed(header: str) -> None:
    try:
        parsed = parse(header)
    except MalformedSignature:
        return
    assert parsed.is_by([SECRET], b"") in (True, False)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_%%%%", "whsec_c2hvcnQ=", "sk_" + "A" * 32])
def test_a_secret_that_other_libraries_could_not_read_is_no_secret(secret: str) -> None:
    with pytest.raises(ValueError, match="A secret"):
        signatures.secret_key(secret)
