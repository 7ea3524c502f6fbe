"""Django for the tests, and for workers that the tests start.

TEST_DATABASE_URL selects the default database: `sqlite:////path/to/file` or `postgresql://…`.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import dj_database_url


def database(url: str) -> dict[str, Any]:
    """Django's description of the database at `url`."""
    described: dict[str, Any] = dict(dj_database_url.parse(url))
    if described["ENGINE"].endswith("sqlite3"):
        described |= _sqlite(described["NAME"])
    return described


def _sqlite(path: str) -> dict[str, Any]:
    # A deferred transaction that reads first cannot become a writer while another one writes.
    options = {
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        "timeout": 20,
    }
    # Named, because Django's own choice is a database in memory that other processes cannot see.
    return {"OPTIONS": options, "TEST": {"NAME": f"{path}.test"}}


_scratch = Path(tempfile.gettempdir()) / f"celery-lease-{os.getpid()}.sqlite3"

SECRET_KEY = "not secret"
USE_TZ = True
DEBUG = False
ALLOWED_HOSTS = ["*"]
DATABASES = {"default": database(os.environ.get("TEST_DATABASE_URL") or f"sqlite:///{_scratch}")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django_celery_results",
    "celery_lease.django",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "tests.support.urls"
STATIC_URL = "static/"
