"""An ordinary Celery app, to try the worker harness on."""

from __future__ import annotations

import os
import threading

from celery import Celery

app = Celery("plain", broker=os.environ.get("BROKER_URL"), backend=os.environ.get("RESULT_BACKEND"))
app.conf.task_default_queue = os.environ.get("TASK_QUEUE", "celery")


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def hold(seconds: float) -> None:
    """Keeps its pool slot, so that a test can find the worker at work."""
    print("holding", flush=True)  # noqa: T201  # the test waits for this line
    threading.Event().wait(seconds)
