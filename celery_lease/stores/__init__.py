"""Job stores by URL."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from celery_lease.errors import ConfigurationError

if TYPE_CHECKING:
    from celery_lease.stores.base import JobStore

#: Scheme to `module:factory`; a factory takes the URL.
SCHEMES = {
    "memory": "celery_lease.stores.memory:open_memory",
    "django": "celery_lease.django.store:open_django",
}

_HINT = 'write lease_store = "django://default" (or "memory://" in tests)'


def open_store(url: str | None, timeout: float = 2.5) -> JobStore:
    """The store behind a URL.

    Args:
        url: `django://ALIAS` or `memory://NAME`.
        timeout: Hard limit of one store call in seconds.

    Raises:
        ConfigurationError: No URL, or one that cannot be understood; says what to write.
    """
    if not url:
        raise ConfigurationError(f"lease_store is not set; {_HINT}")
    scheme = _scheme(url)
    module, _, factory = SCHEMES[scheme].partition(":")
    try:
        opener = getattr(importlib.import_module(module), factory)
    except ImportError as missing:
        raise ConfigurationError(
            f"lease_store {url!r} needs the extra: pip install 'celery-lease[{scheme}]' ({missing})"
        ) from missing
    store: JobStore = opener(url, timeout)
    return store


def _scheme(url: object) -> str:
    try:
        scheme = urlsplit(url).scheme if isinstance(url, str) else ""
    except ValueError:
        scheme = ""
    if scheme not in SCHEMES:
        raise ConfigurationError(f"lease_store {url!r} is not a store URL; {_HINT}")
    return scheme
