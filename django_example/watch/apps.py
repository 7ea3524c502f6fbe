"""Django's entry to the watch app."""

from django.apps import AppConfig


class WatchConfig(AppConfig):
    """The watch app."""

    name = "django_example.watch"
    label = "watch"

    def ready(self) -> None:
        """Start logging what happens to jobs."""
        from django_example.watch import signals  # noqa: PLC0415 - not before the apps are there

        signals.connect()
