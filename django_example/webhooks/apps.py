"""Django's entry to the webhooks app."""

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    """The webhooks app."""

    name = "django_example.webhooks"
    label = "webhooks"

    def ready(self) -> None:
        """Start noting planned attempts."""
        from django_example.webhooks import schedule  # noqa: PLC0415 - not before the models

        schedule.connect()
