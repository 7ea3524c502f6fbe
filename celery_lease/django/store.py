"""Opening a Django job store by its URL, with errors that say what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.apps import apps
from django.core.exceptions import AppRegistryNotReady, ImproperlyConfigured
from django.db import connections

from celery_lease.errors import ConfigurationError

if TYPE_CHECKING:
    from celery_lease.django.jobstore import DjangoStore

_VENDORS = ("postgresql", "sqlite")


def open_django(url: str, timeout: float) -> DjangoStore:
    """The store in the database whose alias is the URL's host: `django://default`.

    Raises:
        ConfigurationError: Django, the app or the alias is not set up.
    """
    using = urlsplit(url).netloc or "default"
    _require_app()
    _require_database(url, using)
    # The models can be imported only once Django is set up, which was just found out.
    from celery_lease.django.jobstore import DjangoStore  # noqa: PLC0415

    return DjangoStore(using, timeout)


def _require_app() -> None:
    try:
        installed = apps.is_installed("celery_lease.django")
    except ImproperlyConfigured as error:
        raise ConfigurationError(
            f"a django:// job store needs Django's settings: set DJANGO_SETTINGS_MODULE ({error})"
        ) from error
    except AppRegistryNotReady as error:
        raise ConfigurationError(
            "a django:// job store was opened before Django: call django.setup() first"
        ) from error
    if not installed:
        raise ConfigurationError(
            'add "celery_lease.django" to INSTALLED_APPS and run `manage.py migrate`'
        )


def _require_database(url: str, using: str) -> None:
    if using not in connections.settings:
        valid = ", ".join(f"django://{alias}" for alias in sorted(connections.settings))
        raise ConfigurationError(f"lease_store {url!r} names no database; valid are {valid}")
    vendor = connections[using].vendor
    if vendor not in _VENDORS:
        raise ConfigurationError(
            f"lease_store {url!r} is a {vendor} database; supported are {', '.join(_VENDORS)}"
        )
