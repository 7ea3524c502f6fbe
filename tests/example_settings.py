"""The settings of the test process: those of the tests, with the example's apps among them.

Workers that the tests start use `tests.django_settings`, without the example's logging and tasks.
"""

from __future__ import annotations

from django_example import settings as example
from tests import django_settings
from tests.django_settings import *  # noqa: F403  # a settings module is its names

INSTALLED_APPS = list(dict.fromkeys([*django_settings.INSTALLED_APPS, *example.INSTALLED_APPS]))
globals().update({k: v for k, v in vars(example).items() if k.startswith("WEBHOOK_")})

CELERY_BROKER_URL = "memory://"
CELERY_LEASE_STORE = "django://default"
