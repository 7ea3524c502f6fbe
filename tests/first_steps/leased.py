"""A small existing project, as Celery's own first steps would have it."""

import os

from celery import Celery

from celery_lease import LeasedTask

app = Celery("proj", broker=os.environ["BROKER_URL"], backend=os.environ["RESULT_BACKEND"])
app.conf.lease_store = os.environ["LEASE_STORE"]


@app.task(base=LeasedTask)
def add(x: int, y: int) -> int:
    return x + y


@app.task(base=LeasedTask)
def xsum(numbers: list[int]) -> int:
    return sum(numbers)


if __name__ == "__main__":
    app.start()
