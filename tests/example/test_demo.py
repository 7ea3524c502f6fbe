"""The demo as a newcomer runs it, in an empty folder."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx2
import psutil
import pytest

from tests.support.worker import ROOT, WorkerLog

if TYPE_CHECKING:
    from pathlib import Path

VARIABLES = ("DATABASE_URL", "BROKER_URL", "LEASE_STORE", "DJANGO_SETTINGS_MODULE")


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return subprocess.Popen(
        [sys.executable, "-m", "django_example", *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(folder: Path, *arguments: str) -> str:
    process = started(folder, *arguments)
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 0, output
    assert left_behind(folder) == []
    return output


def left_behind(folder: Path) -> list[str]:
    """Processes that were started in the folder and still run."""
    running = psutil.process_iter(["cwd", "cmdline"])
    return [" ".join(one.info["cmdline"]) for one in running if one.info["cwd"] == str(folder)]


def assert_all_delivered(output: str) -> None:
    lines = re.findall(r"^ ?\w+\.\w+ .* succeeded .*\byes\b", output, re.MULTILINE)
    assert len(lines) == 20, output
    assert "20 events accepted, 2 repeats recognised" in output


@pytest.mark.slow
def test_once_ends_with_a_table_in_which_every_event_was_applied_once(tmp_path: Path) -> None:
    output = finished(tmp_path, "demo", "--once")
    assert_all_delivered(output)
    assert re.search(r"^order\.paid +\w+ +3 ", output.replace("\n ", "\n"), re.MULTILINE), output
    # The database is still there, and the next run starts from it.
    assert_all_delivered(finished(tmp_path, "demo", "--once"))


@pytest.mark.slow
def test_a_killed_worker_loses_and_repeats_nothing(tmp_path: Path) -> None:
    output = finished(tmp_path, "demo", "--once", "--kill")
    assert "Killed the worker" in output
    assert_all_delivered(output)


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_stop(tmp_path: Path, end: signal.Signals) -> None:
    process = started(tmp_path, "demo")
    assert process.stdout is not None
    try:
        log = WorkerLog(process.stdout)
        health = log.wait(r"health +(http://\S+)", 60)[1]
        login = log.wait(r"admin +(http://\S+)/admin/ +\(login (\w+), password (\w+)\)", 5)
        log.wait("Serving until Ctrl-C", 5)
        assert httpx2.get(health, trust_env=False).json()["status"] == "ok"
        assert_admin_opens(*login.groups())
        process.send_signal(end)
        assert process.wait(30) == 0, str(log)
    finally:
        process.kill()
        process.wait()
    assert left_behind(tmp_path) == []


def assert_admin_opens(base: str, login: str, password: str) -> None:
    with httpx2.Client(base_url=base, follow_redirects=True, trust_env=False) as client:
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', client.get("/admin/").text)
        assert token is not None
        form = {"username": login, "password": password, "csrfmiddlewaretoken": token[1]}
        page = client.post("/admin/login/?next=/admin/webhooks/delivery/", data=form)
        assert "Select delivery" in page.text
        assert client.get("/static/admin/css/base.css").is_success


def test_seeding_prints_what_a_sender_needs(tmp_path: Path) -> None:
    finished(tmp_path, "migrate", "--verbosity", "0")
    seeded = json.loads(finished(tmp_path, "seed_demo", "--json"))
    assert [tenant["slug"] for tenant in seeded["tenants"]] == ["acme", "globex"]
    assert all(
        secret.startswith("whsec_") for one in seeded["tenants"] for secret in one["secrets"]
    )
    assert seeded == json.loads(finished(tmp_path, "seed_demo", "--json"))
