"""The example's manage.py: ``python -m django_example migrate``, ``… demo``, and so on."""

import os
import sys

from django.core.management import execute_from_command_line


def main() -> None:
    """Run one Django command with the example's settings."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "django_example.settings")
    execute_from_command_line(["django_example", *sys.argv[1:]])


if __name__ == "__main__":
    main()
