"""Followers outlive the worker that owed them, and the broker that carried them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from celery import chain, chord, group

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.support.valkey import PrivateValkey
    from tests.workers.conftest import Project


def linked(app: Any, follower: Any) -> Any:
    return app.note.apply_async(("leader",), link=follower)


def chained(app: Any, follower: Any) -> Any:
    return chain(app.note.s("leader"), follower).apply_async().parent


def survive(project: Project, broker: PrivateValkey, leader: Any) -> None:
    """Run until the leader has succeeded and its worker is dead, lose the broker, recover."""
    with project.worker() as doomed:
        doomed.wait_exit()
    assert project.job(leader.id).state == "succeeded"
    with broker.client() as client:
        client.flushall()


def settled(project: Project, task_id: str) -> None:
    wait_for(lambda: project.job(task_id).settled_at is not None, 30, what=f"{task_id} settled")


@pytest.mark.slow
@pytest.mark.parametrize("start", [linked, chained])
def test_a_leased_follower_runs_once(
    dying_project: Project, private_valkey: PrivateValkey, start: Any
) -> None:
    project = dying_project
    leader = start(project.app, project.app.follow.s("follower"))
    survive(project, private_valkey, leader)
    with project.worker():
        settled(project, leader.id)
        wait_for(lambda: project.diary.count("follower") == 1, 30, what="the follower")
        assert leader.get(timeout=10) == "leader"
    assert project.diary.count("leader") == 1
    assert project.diary.count("follower") == 1


@pytest.mark.slow
@pytest.mark.parametrize("start", [linked, chained])
def test_an_ordinary_follower_runs_at_least_once(
    dying_project: Project, private_valkey: PrivateValkey, start: Any
) -> None:
    project = dying_project
    leader = start(project.app, project.app.plain_follow.s("follower"))
    survive(project, private_valkey, leader)
    with project.worker():
        settled(project, leader.id)
        wait_for(lambda: project.diary.count("follower") >= 1, 30, what="the follower")
    assert project.diary.count("leader") == 1


def test_groups_and_chords_of_leased_members(redis_project: Project) -> None:
    app = redis_project.app
    members = [app.note.s(name) for name in ("a", "b", "c")]
    with redis_project.worker():
        assert sorted(group(members).apply_async().get(timeout=20)) == ["a", "b", "c"]
        body = chord(members, app.follow.s("body")).apply_async()
        assert sorted(body.get(timeout=20)) == ["a", "b", "c"]
    assert redis_project.diary.count("body") == 1


def test_the_errback_of_a_dead_job_runs(redis_project: Project) -> None:
    app = redis_project.app
    with redis_project.worker():
        dead = app.give_up.apply_async(("job",), link_error=app.plain_note.si("errback"))
        wait_for(lambda: redis_project.diary.count("errback") == 1, 20, what="the errback")
        redis_project.wait_for_state(dead.id, "dead")
        assert dead.state == "FAILURE"
