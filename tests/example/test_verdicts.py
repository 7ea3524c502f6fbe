"""The table of verdicts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from celery_lease.errors import PermanentError, RetryableError
from django_example.webhooks.exchange import Exchange, Failure
from django_example.webhooks.verdicts import Outcome, Verdict, judge, read_retry_after

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def judged(status: int, *, retry_client_errors: bool = False, **headers: str) -> Verdict:
    exchange = Exchange(status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})
    return judge(exchange, retry_client_errors=retry_client_errors, now=NOW)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_2xx_is_delivered(status: int) -> None:
    assert judged(status) == Verdict(Outcome.DELIVERED)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_what_may_pass_is_tried_again(status: int) -> None:
    assert judged(status) == Verdict(Outcome.RETRY, f"DELIVERY_HTTP_{status}")


@pytest.mark.parametrize("status", [101, 300, 301, 302, 304, 307, 308, 400, 401, 404, 409, 422])
def test_redirects_and_client_errors_are_final(status: int) -> None:
    assert judged(status) == Verdict(Outcome.PERMANENT, f"DELIVERY_HTTP_{status}")


def test_an_endpoint_may_have_client_errors_tried_again() -> None:
    assert judged(404, retry_client_errors=True).outcome == Outcome.RETRY
    assert judged(302, retry_client_errors=True).outcome == Outcome.PERMANENT


def test_gone_is_gone_whatever_the_endpoint_wishes() -> None:
    assert judged(410, retry_client_errors=True) == Verdict(
        Outcome.PERMANENT, "DELIVERY_HTTP_410", gone=True
    )


@pytest.mark.parametrize("failure", Failure)
def test_failures_are_tried_again_unless_no_repetition_can_help(failure: Failure) -> None:
    hopeless = failure in {Failure.UNSAFE, Failure.INVALID_URL}
    verdict = judge(Exchange(failure=failure), now=NOW)
    assert verdict == Verdict(Outcome.PERMANENT if hopeless else Outcome.RETRY, failure)


def test_an_answer_that_broke_off_is_no_delivery() -> None:
    verdict = judge(Exchange(status=200, failure=Failure.TIMEOUT), now=NOW)
    assert verdict == Verdict(Outcome.RETRY, "DELIVERY_TIMEOUT")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7),
        (" 120 ", 120),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), None),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("²", None),
        ("Fri, 99 May 2026 12:00:00 GMT", None),
        ("Fri, 01 May 99999 12:00:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_garbage_is_ignored(
    text: str, seconds: float | None
) -> None:
    assert read_retry_after(text, NOW) == seconds
    assert judged(503, retry_after=text).retry_after == seconds


@pytest.mark.parametrize("text", ["99999", "9" * 400])
def test_retry_after_is_honoured_for_an_hour_at_most(text: str) -> None:
    assert judged(429, retry_after=text).retry_after == 3600


def test_a_verdict_tells_the_lease_what_to_do() -> None:
    judged(200).raise_for_failure()
    with pytest.raises(RetryableError) as again:
        judged(503, retry_after="7").raise_for_failure()
    assert (again.value.code, again.value.retry_after) == ("DELIVERY_HTTP_503", 7)
    with pytest.raises(PermanentError) as never:
        judged(404).raise_for_failure()
    assert never.value.code == "DELIVERY_HTTP_404"
