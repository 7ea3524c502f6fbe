from __future__ import annotations

from django.db import models

from celery_lease.django.fields import ExactCharField, MomentField


class Handover(models.Model):
    """What belongs to one task id: its message, when to publish it, whether it was settled.

    Attributes:
        next_publish_at: When `due` hands the message out; null when nothing is planned.
        handed_out: Whether somebody was told to publish and nothing has happened since.
            Only then does `published` count: a late one must not postpone a retry.
        settled_at: When the outcome was handed to Celery.
        hands_over: False when nobody waits for the outcome.
    """

    message = models.TextField()
    body = models.BinaryField()
    hands_over = models.BooleanField(default=True)
    next_publish_at = MomentField(null=True)
    handed_out = models.BooleanField(default=False)
    publish_count = models.PositiveIntegerField(default=0)
    published_epoch = ExactCharField(max_length=64, default="", blank=True)
    settled_at = MomentField(null=True)
    settle_attempts = models.PositiveIntegerField(default=0)

    class Meta:
        """Columns of two tables; each names its own indexes."""

        abstract = True
