"""Tenants, the secrets shared with them, and the endpoints that take their events."""

from typing import TYPE_CHECKING

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.utils import timezone

from celery_lease.django.fields import ExactCharField
from django_example.webhooks import signatures

if TYPE_CHECKING:
    from django_example.webhooks.models.events import Event


def check_secret(value: str) -> None:
    """Refuse a secret that Standard Webhooks libraries could not read."""
    try:
        signatures.secret_key(value)
    except ValueError as error:
        raise ValidationError(str(error)) from error


class Tenant(models.Model):
    """A customer: sends events in and receives them at its endpoints."""

    ACTIVE_SECRETS = 4

    slug = ExactCharField(max_length=50, unique=True)
    name = models.CharField(max_length=200)

    def __str__(self) -> str:
        """Return the slug, which is also in the tenant's URL."""
        return str(self.slug)

    def active_secrets(self) -> list[str]:
        """Return the secrets that verify and sign now, newest first."""
        secrets = self.secrets.filter(retired_at=None).order_by("-created_at", "-pk")
        return list(secrets.values_list("secret", flat=True)[: self.ACTIVE_SECRETS])

    @transaction.atomic
    def add_secret(self, secret: str) -> "TenantSecret":
        """Give the tenant one more secret, for a rotation.

        Raises:
            ValidationError: If it is malformed, or four are active already.
        """
        check_secret(secret)
        Tenant.objects.select_for_update().get(pk=self.pk)
        if self.secrets.filter(retired_at=None).count() >= self.ACTIVE_SECRETS:
            message = f"{self} has {self.ACTIVE_SECRETS} active secrets. Retire one first."
            raise ValidationError(message)
        return self.secrets.create(secret=secret)


class TenantSecret(models.Model):
    """A secret shared with a tenant. Its text is shown nowhere."""

    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="secrets")
    secret = models.CharField(max_length=120, validators=[check_secret])
    created_at = models.DateTimeField(default=timezone.now)
    retired_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        """Return whose secret it is and since when, never the secret."""
        return f"secret of {self.tenant} since {self.created_at:%Y-%m-%d}"

    def retire(self) -> None:
        """Stop verifying and signing with this secret."""
        self.retired_at = timezone.now()
        self.save(update_fields=["retired_at"])


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    """Questions about endpoints."""

    def subscribed_to(self, event: "Event") -> list["Endpoint"]:
        """Return the enabled endpoints of the event's tenant that want its type."""
        enabled = self.filter(tenant_id=event.tenant_id, disabled_by=Endpoint.Disabler.NOBODY)
        return [endpoint for endpoint in enabled.order_by("pk") if endpoint.wants(event.type)]


class Endpoint(models.Model):
    """A URL of a tenant to which its events are delivered."""

    class Disabler(models.TextChoices):
        """Who switched an endpoint off: what people decided is not undone by a machine."""

        NOBODY = "", "enabled"
        OPERATOR = "operator", "an operator"
        AUTOMATIC = "automatic", "automatically"

    class Policy(models.TextChoices):
        """How patiently a delivery is tried."""

        SECONDS = "seconds", "for about half a minute"
        HOURS = "hours", "for about eighteen hours"

    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="endpoints")
    url = models.URLField(max_length=500)
    event_types = models.JSONField(
        default=list, blank=True, help_text="Only these types; none means all."
    )
    policy = models.CharField(max_length=10, choices=Policy, default=Policy.SECONDS)
    retry_client_errors = models.BooleanField(default=False)
    disabled_by = models.CharField(
        max_length=10, choices=Disabler, default=Disabler.NOBODY, blank=True
    )
    disabled_reason = models.CharField(max_length=200, blank=True)
    disabled_at = models.DateTimeField(null=True, blank=True)

    objects = EndpointQuerySet.as_manager()

    def __str__(self) -> str:
        """Return where it delivers to."""
        return self.url

    @property
    def enabled(self) -> bool:
        """Tell whether deliveries may be sent."""
        return self.disabled_by == self.Disabler.NOBODY

    def wants(self, event_type: str) -> bool:
        """Tell whether the endpoint takes events of this type."""
        return not self.event_types or event_type in self.event_types

    def disable(self, by: Disabler, reason: str) -> None:
        """Switch an enabled endpoint off; one that is off keeps its first reason."""
        enabled = Endpoint.objects.filter(pk=self.pk, disabled_by=self.Disabler.NOBODY)
        enabled.update(disabled_by=by, disabled_reason=reason, disabled_at=timezone.now())
        self.refresh_from_db(fields=["disabled_by", "disabled_reason", "disabled_at"])
