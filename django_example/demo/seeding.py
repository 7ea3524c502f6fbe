"""The demo's two tenants, made anew or brought up to date."""

from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils.crypto import get_random_string

from django_example.webhooks.models import Tenant
from django_example.webhooks.signatures import new_secret

TENANTS = {"acme": "Acme Teas", "globex": "Globex Lamps"}
LOGIN = "demo"


@dataclass(frozen=True)
class SeededTenant:
    """What a sender and a receiver need to know of a tenant.

    Attributes:
        slug: Its name in URLs.
        secrets: All that are active.
        endpoint: Where its events are delivered.
    """

    slug: str
    secrets: list[str]
    endpoint: str


@transaction.atomic
def seed_tenants(receiver: str) -> list[SeededTenant]:
    """Make the tenants, each with a secret and one endpoint at the receiver.

    Args:
        receiver: Base URL, without a slash at its end.
    """
    return [_seed(slug, name, f"{receiver}/hooks/{slug}") for slug, name in TENANTS.items()]


def _seed(slug: str, name: str, url: str) -> SeededTenant:
    tenant, _ = Tenant.objects.update_or_create(slug=slug, defaults={"name": name})
    if not tenant.active_secrets():
        tenant.add_secret(new_secret())
    _point_endpoint(tenant, url)
    return SeededTenant(slug, tenant.active_secrets(), url)


def _point_endpoint(tenant: Tenant, url: str) -> None:
    # The same endpoint at another port, so that what an earlier run left behind still arrives.
    endpoint = tenant.endpoints.order_by("pk").first() or tenant.endpoints.create(url=url)
    endpoint.url = url
    endpoint.save(update_fields=["url"])


def seed_login() -> str:
    """Make the demo's admin, and return its password, which is new each time."""
    password = get_random_string(12)
    user, _ = get_user_model().objects.get_or_create(username=LOGIN)
    user.is_staff = user.is_superuser = True
    user.set_password(password)
    user.save()
    return password
