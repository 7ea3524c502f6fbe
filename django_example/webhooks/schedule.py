"""Keeps on each attempt when the next one is due, as the job store has decided it."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from celery_lease.job import Job
from celery_lease.signals import job_retrying
from django_example.webhooks.models import DeliveryAttempt
from django_example.webhooks.tasks import TASKS


def connect() -> None:
    """Note every retry that this process plans."""
    job_retrying.connect(note_next_attempt)


def note_next_attempt(job: Job, retry_in: float, **_: Any) -> None:
    """Write down when a delivery is tried again, for those who look at its attempts."""
    if job.task in {task.name for task in TASKS.values()}:
        due = timezone.now() + timedelta(seconds=retry_in)
        attempt = DeliveryAttempt.objects.filter(delivery_id=job.id, token=job.token)
        attempt.update(next_attempt_at=due)
