"""The tasks that `run_path.py` measures."""

from __future__ import annotations

import os
from pathlib import Path

from celery import Celery

from celery_lease import LeasedTask

app = Celery("bench", broker=os.environ["BROKER_URL"])
app.conf.lease_store = "django://default"
ENDS = Path(os.environ["COUNTS"]) / "ends"


def done() -> int:
    """How many tasks have ended so far."""
    return ENDS.stat().st_size if ENDS.exists() else 0


def _note() -> None:
    ends = os.open(ENDS, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(ends, b".")
    os.close(ends)


@app.task(ignore_result=True)
def plain() -> None:
    """One of Celery's own."""
    _note()


@app.task(base=LeasedTask, ignore_result=True)
def leased() -> None:
    """One of ours."""
    _note()
