"""Every environment variable that the example reads, as one table.

The README lists this table and a test compares the two, so an option that is
not here does not exist.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Generic, TypeVar

from django.core.exceptions import ImproperlyConfigured

T_co = TypeVar("T_co", covariant=True)
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Option(Generic[T_co]):
    """One environment variable: how it is written, read and explained."""

    name: str
    default: str
    parse: Callable[[str], T_co]
    meaning: str

    def read(self, environ: Mapping[str, str] = os.environ) -> T_co:
        """Return the parsed value of the variable, or of its default.

        Raises:
            ImproperlyConfigured: If the text cannot be read as this option.
        """
        text = environ.get(self.name, self.default)
        try:
            return self.parse(text)
        except ValueError as error:
            message = f"{self.name}={text!r} is not usable: {error}. It is {self.meaning}"
            raise ImproperlyConfigured(message) from error


def words(text: str) -> list[str]:
    """Split a comma-separated list, dropping blanks."""
    return [word.strip() for word in text.split(",") if word.strip()]


def networks(text: str) -> list[Network]:
    """Read a comma-separated list of networks such as ``127.0.0.0/8, ::1/128``."""
    return [ip_network(word) for word in words(text)]


def positive(text: str) -> float:
    """Read a number greater than zero."""
    number = float(text)
    if not number > 0:
        message = "it must be greater than zero"
        raise ValueError(message)
    return number


def count(text: str) -> int:
    """Read a whole number of at least one."""
    number = int(text)
    if number < 1:
        message = "it must be at least one"
        raise ValueError(message)
    return number


DATABASE_URL = Option(
    "DATABASE_URL",
    "sqlite:///django_example.sqlite3",
    str,
    "the database of the example and of its jobs",
)
BROKER_URL = Option("BROKER_URL", "redis://127.0.0.1:6379/0", str, "the Celery broker")
LEASE_STORE = Option("LEASE_STORE", "django://default", str, "where the jobs live")
SECRET_KEY = Option(
    "DJANGO_SECRET_KEY", "for-the-demo-only-set-your-own", str, "Django's secret key"
)
ALLOWED_HOSTS = Option(
    "ALLOWED_HOSTS",
    "localhost,127.0.0.1,[::1]",
    words,
    "the host names that the web server answers to",
)
WORKER_COUNT = Option(
    "WEBHOOK_WORKER_COUNT", "3", count, "how many deliveries one worker runs at a time"
)
MAX_ATTEMPTS = Option(
    "WEBHOOK_MAX_ATTEMPTS", "6", count, "after how many attempts a delivery is dead"
)
BACKOFF_BASE = Option(
    "WEBHOOK_BACKOFF_BASE", "1", positive, "the seconds before the second attempt"
)
BACKOFF_MAXIMUM = Option(
    "WEBHOOK_BACKOFF_MAXIMUM", "60", positive, "the longest wait between two attempts, in seconds"
)
BACKOFF_JITTER = Option(
    "WEBHOOK_BACKOFF_JITTER", "0.2", float, "the random part of a wait, as a share of it"
)
LEASE_TTL = Option(
    "WEBHOOK_LEASE_TTL",
    "30",
    positive,
    "the seconds after which a silent worker loses its delivery",
)
LEASE_HEARTBEAT = Option(
    "WEBHOOK_LEASE_HEARTBEAT", "10", positive, "the seconds between two renewals of a lease"
)
REPUBLISH_AFTER = Option(
    "WEBHOOK_REPUBLISH_AFTER",
    "30",
    positive,
    "the seconds after which the message of a delivery that has not begun counts as lost",
)
HTTP_DEADLINE = Option(
    "WEBHOOK_HTTP_DEADLINE", "20", positive, "the seconds that one POST may take in all"
)
ATTEMPT_TIMEOUT = Option(
    "WEBHOOK_ATTEMPT_TIMEOUT",
    "25",
    positive,
    "the seconds that one attempt may take, its verdict included",
)
RETRY_AFTER_MAXIMUM = Option(
    "WEBHOOK_RETRY_AFTER_MAXIMUM",
    "3600",
    positive,
    "the longest Retry-After that is honoured, in seconds",
)
ALLOWED_NETWORKS = Option(
    "WEBHOOK_ALLOWED_NETWORKS",
    "127.0.0.0/8,::1/128",
    networks,
    "the only networks that deliveries may reach",
)
BODY_LIMIT = Option(
    "WEBHOOK_BODY_LIMIT", "524288", count, "the largest event that is taken, in bytes"
)
SIGNATURE_TOLERANCE = Option(
    "WEBHOOK_SIGNATURE_TOLERANCE",
    "300",
    positive,
    "the seconds that a signature's time may be off, either way",
)

TABLE: tuple[Option[object], ...] = tuple(
    value for value in globals().values() if isinstance(value, Option)
)
