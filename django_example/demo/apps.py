"""Django's entry to the demo app."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    """The demo app."""

    name = "django_example.demo"
    label = "demo"
