"""``python -m django_example seed_demo --json``."""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from django_example.demo.seeding import seed_tenants


class Command(BaseCommand):
    """Makes the demo's tenants."""

    help = "Make two tenants with a secret and an endpoint each, and print them. For demos only."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("--json", action="store_true", help="print JSON for programs")
        parser.add_argument(
            "--receiver", default="http://127.0.0.1:9000", help="base URL of the receiver"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Seed and print."""
        tenants = seed_tenants(options["receiver"])
        if options["json"]:
            self.stdout.write(
                json.dumps({"tenants": [asdict(tenant) for tenant in tenants]}, indent=2)
            )
            return
        for tenant in tenants:
            self.stdout.write(f"{tenant.slug}: {tenant.secrets[0]} -> {tenant.endpoint}")
