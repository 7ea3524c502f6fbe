from __future__ import annotations

import os
import signal
import subprocess
import sys
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from celery_lease.django.models import Job, JobEvent
from celery_lease.testing.contract.scene import finish, hold_new, new, submit
from tests.django_store.filling import fill_prunable
from tests.support.worker import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_lease.stores.base import JobStore
    from tests.support.databases import TestDatabase

AFTER_RETENTION = 31 * 86_400.0


def prune(*options: str) -> list[str]:
    out = StringIO()
    call_command("lease_prune", *options, stdout=out)
    return out.getvalue().splitlines()


def test_deletes_in_batches_until_nothing_is_left(
    store: JobStore, elapse: Callable[[float], None]
) -> None:
    for n in range(5):
        finish(store, new(f"old {n}"))
    hold_new(store, new("running"))
    elapse(AFTER_RETENTION)
    finish(store, new("young"))
    submit(store, new("pending"))
    assert prune("--batch", "2") == [
        "2 deleted, 2 so far",
        "2 deleted, 4 so far",
        "1 deleted, 5 so far",
        "5 deleted in all",
    ]
    kept = {"running", "young", "pending"}
    assert set(Job.objects.values_list("id", flat=True)) == kept
    assert set(JobEvent.objects.values_list("job_id", flat=True)) == kept


def test_limit(store: JobStore) -> None:
    del store  # its database
    fill_prunable(5)
    assert prune("--batch", "2", "--limit", "3")[-1] == "3 deleted in all"
    assert Job.objects.count() == 2


@pytest.mark.usefixtures("store")
def test_nothing_to_delete() -> None:
    assert prune() == ["0 deleted in all"]


@pytest.mark.parametrize("option", ["--batch=0", "--limit=-1", "--database=nowhere", "--batch=x"])
def test_refuses_what_makes_no_sense(option: str) -> None:
    with pytest.raises(CommandError):
        prune(option)


def test_deletes_in_the_database_that_is_named(
    store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    del store
    fill_prunable(1)
    monkeypatch.setitem(connections.settings, "second", connections.settings["default"])
    connections["default"].close()
    try:
        assert prune("--database", "second") == ["1 deleted, 1 so far", "1 deleted in all"]
    finally:
        connections["second"].close()
        del connections["second"]


def test_an_interrupt_ends_it_after_the_batch(store: JobStore, database: TestDatabase) -> None:
    count = 3000
    fill_prunable(count)
    store.close()
    command = [sys.executable, "-m", "django", "lease_prune", "--batch", "1"]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **database.env}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1 deleted, 1 so far\n"
        process.send_signal(signal.SIGINT)
        last = process.stdout.read().splitlines()[-1]
    assert process.returncode == 130
    assert 0 < Job.objects.count() < count
    assert last == f"{count - Job.objects.count()} deleted in all, interrupted"
