"""Read-only pages for operators; secrets are on none of them."""

from django.contrib import admin
from django.http import HttpRequest

from django_example.webhooks.models import Delivery, DeliveryAttempt, Endpoint, Event, Tenant


class ReadOnly:
    """Pages to look at: what happened is not edited."""

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:  # noqa: ARG002
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:  # noqa: ARG002
        return False


@admin.register(Tenant)
class TenantAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]  # not generic when it runs
    list_display = ("slug", "name")


@admin.register(Endpoint)
class EndpointAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]  # not generic when it runs
    list_display = ("url", "tenant", "policy", "disabled_by", "disabled_reason")
    list_filter = ("disabled_by", "policy")


@admin.register(Event)
class EventAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]  # not generic when it runs
    list_display = ("event_id", "tenant", "source", "type", "received_at", "conflict")
    list_filter = ("conflict",)
    list_select_related = ("tenant",)
    exclude = ("body",)
    show_full_result_count = False


class AttemptInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg]  # likewise
    model = DeliveryAttempt
    extra = 0
    exclude = ("answer", "url", "body_sha256")


@admin.register(Delivery)
class DeliveryAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]  # not generic when it runs
    list_display = ("event", "endpoint", "created_at", "delivered_at")
    list_select_related = ("event", "endpoint")
    inlines = (AttemptInline,)
    show_full_result_count = False
