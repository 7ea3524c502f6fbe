"""What a lease costs: the same empty task, plain and leased, through one worker.

Prints the rate of each in the same run, rounds interleaved, and the median ratio. Needs
TEST_REDIS_URL and TEST_POSTGRES_URL, or starts servers of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from typing import Any

from tests.support import services
from tests.support.databases import PostgresDatabases
from tests.support.valkey import own_redis_database
from tests.support.waiting import wait_for
from tests.support.worker import running_worker

APP = "benchmarks.run_path_app"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pool", default="prefork")
    options = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.django_settings"
    with ExitStack() as stack:
        measure(options, environment(stack))


def environment(stack: ExitStack) -> dict[str, str]:
    """Servers for this run, named in this process's environment and the worker's."""
    import django

    django.setup()
    redis = stack.enter_context(own_redis_database(stack.enter_context(services.redis_server())))
    databases = PostgresDatabases(stack.enter_context(services.postgres_server()))
    stack.callback(databases.close)
    database = stack.enter_context(databases.copy())
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    env = {"BROKER_URL": redis, "COUNTS": folder, **database.env}
    os.environ.update(env)
    return {**env, "DJANGO_SETTINGS_MODULE": "tests.django_settings"}


def measure(options: argparse.Namespace, env: dict[str, str]) -> None:
    from benchmarks import run_path_app as app

    ratios = []
    with running_worker(APP, pool=options.pool, concurrency=2, env=env):
        rate(app.plain, options.tasks // 10)
        for _ in range(options.rounds):
            plain, leased = rate(app.plain, options.tasks), rate(app.leased, options.tasks)
            ratios.append(plain / leased)
            print(f"plain {plain:7.1f}/s   leased {leased:7.1f}/s   ratio {ratios[-1]:.2f}")
    print(f"a leased task takes {statistics.median(ratios):.2f} times as long (median)")


def rate(task: Any, tasks: int) -> float:
    """Tasks per second from the first submission to the last end."""
    from benchmarks.run_path_app import done

    before, started = done(), time.monotonic()
    for _ in range(tasks):
        task.delay()
    wait_for(lambda: done() - before >= tasks, 120, interval=0.005, what="the last task")
    return tasks / (time.monotonic() - started)


if __name__ == "__main__":
    main()
