"""A tenant with one endpoint, and a sender that signs as the default scheme says."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.test import Client

from django_example.webhooks import signatures

if TYPE_CHECKING:
    from django.http import HttpResponse

    from django_example.webhooks.models import Endpoint, Tenant
    from tests.support.databases import TestDatabase


def event(**changes: Any) -> bytes:
    """The bytes of an event with an id of its own."""
    fields = {"id": f"evt_{uuid4().hex}", "type": "order.paid", "createdAt": "2026-05-01T12:00:00Z"}
    return json.dumps({**fields, "payload": {"amount": 4200}, **changes}).encode()


@dataclass(frozen=True)
class Sender:
    """Posts events as one tenant's system would."""

    slug: str
    secret: str
    source: str = ""

    def sign(self, body: bytes, offset: float = 0) -> str:
        return signatures.sign([self.secret], int(time.time() + offset), body)

    def post(self, body: bytes, signature: str | None = None, **headers: str) -> HttpResponse:
        signed = self.sign(body) if signature is None else signature
        path = f"/webhooks/{self.slug}/{self.source}"
        return self.post_raw(path, body, {"Webhook-Signature": signed, **headers})

    def post_raw(self, path: str, body: bytes, headers: dict[str, str]) -> HttpResponse:
        # The client re-raises by default what a server would answer with 500.
        client = Client(raise_request_exception=True)
        return client.post(path, body, content_type="application/json", headers=headers)


@pytest.fixture
def tenant(database: TestDatabase) -> Tenant:  # noqa: ARG001 - it must be there
    from django_example.webhooks.models import Tenant

    return Tenant.objects.create(slug="acme", name="Acme")


@pytest.fixture
def endpoint(tenant: Tenant) -> Endpoint:
    return tenant.endpoints.create(url="http://127.0.0.1:9/hook")


@pytest.fixture
def sender(tenant: Tenant) -> Sender:
    secret = signatures.new_secret()
    tenant.add_secret(secret)
    return Sender(tenant.slug, secret)
