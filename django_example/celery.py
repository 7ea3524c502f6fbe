"""The Celery app of the example. The one line for celery-lease is in the settings."""

import logging.config
import os

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "django_example.settings")

app = Celery("django_example")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def use_django_logging(**_: object) -> None:
    """Give workers the JSON log of the web server instead of Celery's own format."""
    from django.conf import settings  # noqa: PLC0415 - settings import this package

    logging.config.dictConfig(settings.LOGGING)
