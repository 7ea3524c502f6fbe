"""The promise of the README: one base class and one setting, and no other line."""

import difflib
from pathlib import Path

HERE = Path(__file__).parent


def _changes() -> list[str]:
    plain, leased = ((HERE / name).read_text().splitlines() for name in ("plain.py", "leased.py"))
    return [line for line in difflib.ndiff(plain, leased) if line[0] in "+-" and line[1:].strip()]


def test_an_existing_project_becomes_leased_by_one_base_class_and_one_setting() -> None:
    assert _changes() == [
        "+ from celery_lease import LeasedTask",
        '+ app.conf.lease_store = os.environ["LEASE_STORE"]',
        "- @app.task",
        "+ @app.task(base=LeasedTask)",
        "- @app.task",
        "+ @app.task(base=LeasedTask)",
    ]
