"""Webhooks in, leased deliveries out: a small product built on celery-lease."""

from django_example.celery import app as celery_app

__all__ = ["celery_app"]
