"""A small existing project, as Celery's own first steps would have it."""

import os

from celery import Celery

app = Celery("proj", broker=os.environ["BROKER_URL"], backend=os.environ["RESULT_BACKEND"])


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def xsum(numbers: list[int]) -> int:
    return sum(numbers)


if __name__ == "__main__":
    app.start()
