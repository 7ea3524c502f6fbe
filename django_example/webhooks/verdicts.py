"""What follows from an exchange: delivered, once more, or never again."""

from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from http import HTTPStatus

from celery_lease import PermanentError, RetryableError
from django_example.webhooks.exchange import Exchange, Failure

RETRIED_STATUSES = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
PERMANENT_FAILURES = frozenset({Failure.UNSAFE, Failure.INVALID_URL})


class Outcome(StrEnum):
    """The three things that an attempt can come to."""

    DELIVERED = "delivered"
    RETRY = "retry"
    PERMANENT = "permanent"

    @classmethod
    def choices(cls) -> list[tuple[str, str]]:
        """Return the values as choices of a model field."""
        return [(outcome.value, outcome.value) for outcome in cls]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one exchange means for its delivery.

    Attributes:
        outcome: Delivered, once more, or never again.
        code: Why it was not delivered, empty if it was.
        retry_after: Seconds that the receiver asks to be left alone, or None.
        gone: The receiver says that it will never take anything again.
    """

    outcome: Outcome
    code: str = ""
    retry_after: float | None = None
    gone: bool = False

    def raise_for_failure(self) -> None:
        """Return if delivered, otherwise tell the lease what to do about it.

        Raises:
            RetryableError: For another attempt, after ``retry_after`` at the earliest.
            PermanentError: For none.
        """
        if self.outcome == Outcome.RETRY:
            raise RetryableError(self.code, code=self.code, retry_after=self.retry_after)
        if self.outcome == Outcome.PERMANENT:
            raise PermanentError(self.code, code=self.code)


def judge(
    exchange: Exchange,
    *,
    retry_client_errors: bool = False,
    retry_after_maximum: float = 3600,
    now: datetime,
) -> Verdict:
    """Return what an exchange means.

    Args:
        exchange: What came of the POST.
        retry_client_errors: Whether the endpoint wants other 4xx to be tried again.
        retry_after_maximum: The longest ``Retry-After`` to honour, in seconds.
        now: The time from which a ``Retry-After`` date counts, time zone aware.
    """
    if exchange.failure or exchange.status is None:
        return _failed(exchange.failure or Failure.BROKEN)
    status, code = exchange.status, f"DELIVERY_HTTP_{exchange.status}"
    if HTTPStatus(200) <= status < HTTPStatus(300):
        return Verdict(Outcome.DELIVERED)
    if status == HTTPStatus.GONE:
        return Verdict(Outcome.PERMANENT, code, gone=True)
    if _deserves_retry(status, retry_client_errors=retry_client_errors):
        wait = read_retry_after(exchange.headers.get("retry-after", ""), now)
        return Verdict(
            Outcome.RETRY, code, None if wait is None else min(wait, retry_after_maximum)
        )
    return Verdict(Outcome.PERMANENT, code)


def _failed(failure: Failure) -> Verdict:
    outcome = Outcome.PERMANENT if failure in PERMANENT_FAILURES else Outcome.RETRY
    return Verdict(outcome, failure)


def _deserves_retry(status: int, *, retry_client_errors: bool) -> bool:
    client_error = 400 <= status < 500  # noqa: PLR2004 - the class of the status
    return status >= 500 or status in RETRIED_STATUSES or (client_error and retry_client_errors)  # noqa: PLR2004


def read_retry_after(text: str, now: datetime) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for; None if it is garbage or past."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        seconds = (parsedate_to_datetime(text) - now).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return seconds if seconds > 0 else None
