"""Imports point one way. Each rule stands here with its reason, and is shown to be able to fail."""

from __future__ import annotations

import graphlib
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.support.import_graph import Import, Kind, Package, is_within
from tests.support.worker import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

# A module imports from its own layer and from those above it in this table, never from below.
# Type annotations may name what is handed in from below; nothing is loaded for them.
LAYERS: tuple[tuple[str, str], ...] = (
    ("words and primitives that everything uses", "errors clock lua native"),
    ("values and rules, no I/O", "job lease policy keys owner outcome"),
    ("what a store promises, what is told", "stores.base signals message publisher submission"),
    ("stores", "stores django django.models django.store django.commit django.fencing"),
    ("the loops", "interrupts holdings heartbeat watchdog sweeper"),
    ("the run path", "runtime absence attempt handover reporting results retrying settling"),
    ("where Celery meets it", "task request worker"),
    ("readers and callers, used by nobody inside", "cli beat testing metrics telemetry"),
    ("likewise, of Django", "django.apps django.admin django.checks django.tasks"),
    ("likewise, its scripts", "django.management django.migrations"),
)
PUBLIC_NAMES = "celery_lease"

# Stands beside the layers: see the rules about it below.
APART = "transport"


@dataclass(frozen=True)
class OnlyIn:
    """`target` is imported nowhere but in `places`."""

    target: str
    places: tuple[str, ...]
    reason: str

    def broken_by(self, one: Import) -> bool:
        return is_within(one.target, self.target) and not _inside(one.importer, self.places)


@dataclass(frozen=True)
class NothingBut:
    """`source` imports of this package nothing but `targets` and itself."""

    source: str
    targets: tuple[str, ...]
    reason: str

    def broken_by(self, one: Import) -> bool:
        ours = is_within(one.target, "celery_lease")
        allowed = (self.source, *self.targets)
        return is_within(one.importer, self.source) and ours and not _inside(one.target, allowed)


RULES: tuple[OnlyIn | NothingBut, ...] = (
    OnlyIn(
        "redis",
        ("celery_lease.stores.redis", "celery_lease.transport"),
        "redis-py is an extra: whoever uses another store and broker does not install it",
    ),
    OnlyIn(
        "kombu",
        ("celery_lease.transport", "celery_lease.message", "celery_lease.publisher"),
        "jobs outlive brokers: only who builds or publishes a message knows kombu's form of it",
    ),
    OnlyIn(
        "django",
        ("celery_lease.django",),
        "Django is an extra: Celery alone must do for everything else",
    ),
    OnlyIn(
        "celery_lease.django",
        ("celery_lease.django",),
        "a project without Django never loads it; stores are opened by URL",
    ),
    OnlyIn(
        "celery_lease.transport",
        ("celery_lease.transport",),
        "the transport is a second, independent layer: leases hold on every broker",
    ),
    OnlyIn(
        "celery_lease.cli",
        ("celery_lease.cli",),
        "commands call the store and nothing calls the commands",
    ),
    NothingBut(
        "celery_lease.transport",
        ("celery_lease.errors", "celery_lease.lua"),
        "the transport makes a better broker for all tasks, leased or not",
    ),
)

ONLY_IN = [rule for rule in RULES if isinstance(rule, OnlyIn)]
PACKAGE = Package(ROOT / "celery_lease")
MODULES = PACKAGE.modules()
IMPORTS = PACKAGE.imports()


def _inside(module: str, places: Iterable[str]) -> bool:
    return any(is_within(module, place) for place in places)


def rank(module: str) -> int | None:
    """The layer of the longest name in the table that `module` lies within."""
    if module == PUBLIC_NAMES:
        return len(LAYERS)
    name = module.removeprefix(f"{PUBLIC_NAMES}.")
    ranks = {n: number for number, (_, names) in enumerate(LAYERS) for n in names.split()}
    found = [n for n in ranks if is_within(name, n)]
    return ranks[max(found, key=len)] if found else None


def upward(imports: Iterable[Import]) -> list[Import]:
    """Imports that point from a layer to one further down the table."""
    return [one for one in imports if _points_up(one)]


def _points_up(one: Import) -> bool:
    importer, target = rank(one.importer), rank(one.target)
    return (
        one.kind is not Kind.TYPES
        and is_within(one.target, "celery_lease")
        and importer is not None
        and target is not None
        and target > importer
    )


def cycle(imports: Iterable[Import]) -> list[str]:
    """Some modules that import each other in a circle while they load, or nothing."""
    sorter: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter()
    for one in imports:
        if one.kind is Kind.LOAD and one.importer != one.target:
            sorter.add(one.importer, one.target)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def import_without(blocked: Sequence[str], package: str, path: Path) -> str:
    """What of `package` cannot be imported when the modules `blocked` do not exist."""
    command = [sys.executable, "-m", "tests.support.import_blocked", package, *blocked]
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    return done.stderr.strip()


@pytest.mark.parametrize("module", MODULES)
def test_module_keeps_the_rules(module: str) -> None:
    own = [one for one in IMPORTS if one.importer == module]
    assert [f"{one}: {r.reason}" for one in own for r in RULES if r.broken_by(one)] == []
    assert list(map(str, upward(own))) == [], "these point up: see LAYERS"


@pytest.mark.parametrize("module", MODULES)
def test_module_has_a_place(module: str) -> None:
    placed = rank(module) is not None or is_within(module, f"celery_lease.{APART}")
    assert placed, f"give {module} its place in LAYERS"


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert cycle(IMPORTS) == []


@pytest.mark.parametrize("removed", ["transport", "django", "cli"])
def test_the_rest_works_without(removed: str) -> None:
    assert import_without([f"celery_lease.{removed}"], "celery_lease", ROOT) == ""


def test_the_core_works_without_extras() -> None:
    extras = ["django", "redis", "prometheus_client", "celery_lease.django"]
    optional = ["celery_lease.stores.redis", "celery_lease.transport", "celery_lease.metrics"]
    assert import_without([*extras, *optional], "celery_lease", ROOT) == ""


def _tree(folder: Path, package: str, files: dict[str, str]) -> Package:
    for name, text in {"__init__.py": "", **files}.items():
        path = folder / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Package(folder / package)


@pytest.mark.parametrize("rule", ONLY_IN, ids=lambda rule: rule.target)
def test_a_forbidden_import_is_found(tmp_path: Path, rule: OnlyIn) -> None:
    offence = f"def f():\n    import {rule.target}.part\n"
    package = _tree(tmp_path, "celery_lease", {"attempt.py": offence})
    assert [str(one) for one in package.imports() if rule.broken_by(one)] == [
        f"celery_lease.attempt:2 imports {rule.target}.part"
    ]


def test_a_transport_that_leans_on_jobs_is_found(tmp_path: Path) -> None:
    files = {"job.py": "", "transport/__init__.py": "", "transport/qos.py": "from .. import job\n"}
    imports = _tree(tmp_path, "celery_lease", files).imports()
    broken = [one for one in imports for rule in RULES if rule.broken_by(one)]
    assert list(map(str, broken)) == ["celery_lease.transport.qos:1 imports celery_lease.job"]


@pytest.mark.parametrize(
    ("importer", "statement"),
    [
        ("job.py", "from celery_lease.stores.base import JobStore"),
        ("stores/base.py", "from ..attempt import Attempt"),
        ("attempt.py", "from celery_lease import task"),
        ("heartbeat.py", "from celery_lease import LeasedTask"),
        ("task.py", "import celery_lease.cli"),
    ],
)
def test_an_arrow_that_points_up_is_found(tmp_path: Path, importer: str, statement: str) -> None:
    files = {"task.py": "", importer: statement}
    assert len(upward(_tree(tmp_path, "celery_lease", files).imports())) == 1


def test_a_circle_is_found_unless_it_is_closed_at_run_time(tmp_path: Path) -> None:
    there = {"job.py": "from celery_lease import lease", "lease.py": "from celery_lease import job"}
    later = {**there, "lease.py": "def f():\n    from celery_lease import job\n"}
    types = {**there, "lease.py": "if TYPE_CHECKING:\n    from celery_lease import job\n"}
    assert set(cycle(_tree(tmp_path, "celery_lease", there).imports())) == {
        "celery_lease.job",
        "celery_lease.lease",
    }
    assert cycle(_tree(tmp_path, "celery_lease", later).imports()) == []
    assert cycle(_tree(tmp_path, "celery_lease", types).imports()) == []


def test_a_module_without_a_place_is_found() -> None:
    assert rank("celery_lease.helpers") is None
    assert rank("celery_lease.stores.redis") == rank("celery_lease.stores")


def test_a_module_that_needs_a_deleted_one_is_found(tmp_path: Path) -> None:
    files = {"cli.py": "", "beat.py": "from leasing import cli\n", "job.py": ""}
    _tree(tmp_path, "leasing", files)
    assert import_without([], "leasing", tmp_path) == ""
    assert import_without(["leasing.cli"], "leasing", tmp_path).startswith("leasing.beat: ")
