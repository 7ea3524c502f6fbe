"""The HTTP client of deliveries: one POST, to allowed networks only, within one total deadline."""

from django_example.webhooks.outgoing.client import post

__all__ = ["post"]
