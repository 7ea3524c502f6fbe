"""The Django store on each engine, and ways to move its time and look behind it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from django.db.models import BigIntegerField, ExpressionWrapper, F, Value

from celery_lease.django.fields import MomentField
from celery_lease.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django.plugin import DjangoDbBlocker

    from celery_lease.django.jobstore import DjangoStore
    from tests.support.databases import TestDatabase


@pytest.fixture
def store(
    database: TestDatabase,  # noqa: ARG001  # only has to be there: it is the default
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[DjangoStore]:
    """A store in an empty database of its own, once per engine."""
    with django_db_blocker.unblock():
        store = open_store("django://default", timeout=5.0)
        yield store
        store.close()


@pytest.fixture
def postgres_store(
    postgres_database: TestDatabase,  # noqa: ARG001  # likewise
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[DjangoStore]:
    """The same on PostgreSQL only, for what SQLite with its one writer does not have."""
    with django_db_blocker.unblock():
        store = open_store("django://default", timeout=5.0)
        yield store
        store.close()


@pytest.fixture
def elapse(store: DjangoStore) -> Callable[[float], None]:
    """Let time pass: move everything that is stored into the past."""
    return lambda seconds: shift_times(store.using, seconds)


def shift_times(using: str, seconds: float) -> None:
    from celery_lease.django import models

    distance = Value(round(seconds * 1_000_000), output_field=BigIntegerField())
    for name in models.__all__:
        model = getattr(models, name)
        moments = [f.name for f in model._meta.concrete_fields if isinstance(f, MomentField)]
        earlier = {
            name: ExpressionWrapper(F(name) - distance, output_field=MomentField())
            for name in moments
        }
        model.objects.using(using).update(**earlier)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]
