"""Tenants, their endpoints, the events that came in and what became of each delivery."""

from django_example.webhooks.models.deliveries import Delivery, DeliveryAttempt
from django_example.webhooks.models.events import Event
from django_example.webhooks.models.tenants import Endpoint, Tenant, TenantSecret, check_secret

__all__ = [
    "Delivery",
    "DeliveryAttempt",
    "Endpoint",
    "Event",
    "Tenant",
    "TenantSecret",
    "check_secret",
]
