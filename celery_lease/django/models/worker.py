from __future__ import annotations

from django.db import models

from celery_lease.django.fields import ExactCharField, MomentField


class Worker(models.Model):
    """A worker whose sweeper was alive until `until`, unless it says so again."""

    name = ExactCharField(max_length=255, primary_key=True)
    until = MomentField()

    def __str__(self) -> str:
        return str(self.name)
