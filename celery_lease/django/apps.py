from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import register

from celery_lease.django.checks import sqlite_begins_as_writer


class CeleryLeaseConfig(AppConfig):
    """Durable jobs for leased Celery tasks."""

    name = "celery_lease.django"
    label = "celery_lease"
    verbose_name = "Celery jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the checks."""
        register(sqlite_begins_as_writer)
