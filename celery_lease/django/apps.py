from __future__ import annotations

from django.apps import AppConfig


class CeleryLeaseConfig(AppConfig):
    """Durable jobs for leased Celery tasks."""

    name = "celery_lease.django"
    label = "celery_lease"
    verbose_name = "Celery jobs"
    default_auto_field = "django.db.models.BigAutoField"
