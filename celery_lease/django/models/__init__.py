from celery_lease.django.models.event import JobEvent
from celery_lease.django.models.job import Job
from celery_lease.django.models.lease import JobLease
from celery_lease.django.models.submission import Submission
from celery_lease.django.models.worker import Worker

__all__ = ["Job", "JobEvent", "JobLease", "Submission", "Worker"]
