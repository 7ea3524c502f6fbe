"""What is kept of a submission is the message Celery itself would have published."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery

from celery_lease.errors import MessageNotSerialisable
from celery_lease.job import Due
from celery_lease.message import HEADER, Message, decoded
from celery_lease.publisher import Publisher

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.run_path.conftest import Lab

OPTIONS: list[dict[str, Any]] = [
    {},
    {"priority": 5},
    {"headers": {"tenant": "a", "deep": {"x": [1]}}},
    {"compression": "gzip"},
    {"serializer": "pickle"},
    {"shadow": "other name", "time_limit": 30, "soft_time_limit": 20},
    {"argsrepr": "(<hidden>)", "kwargsrepr": "{}"},
    {"ignore_result": True},
    {"reply_to": "somebody", "correlation_id": "one"},
    {"queue": "own"},
    {"group_id": "g", "group_index": 3, "root_id": "r", "parent_id": "p"},
    {"stamped_headers": ["stamp"], "stamp": "red"},
]


def _body(x: int, y: int = 0) -> int:
    return x + y


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """Without a worker, so that messages stay in their queue."""
    return make_lab(task_queue_max_priority=10)


@pytest.fixture
def plain(lab: Lab) -> Any:
    """The same task in the same project, as it was before it became a leased one."""
    app = Celery(lab.app.main, set_as_current=False)
    app.conf.update(lab.app.conf.changes)
    return app.task(shared=False, name="same")(_body)


def taken(app: Celery, queue: str = "") -> dict[str, Any]:
    """The next message of a queue, as a worker would see it."""
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        message = channel.basic_get(queue or app.conf.task_default_queue, no_ack=True)
    own = {n: v for n, v in message.properties.items() if not n.startswith("delivery_")}
    routing = {n: message.delivery_info.get(n) for n in ("exchange", "routing_key", "priority")}
    kind = (message.content_type, message.content_encoding)
    return {**own, **routing, "headers": message.headers, "kind": kind, "body": message.body}


def _ours(message: dict[str, Any]) -> dict[str, Any]:
    assert "keep" in message["headers"].pop(HEADER)
    return message


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
def test_a_message_is_celerys_own_with_one_header_more(
    lab: Lab, plain: Any, options: dict[str, Any]
) -> None:
    # Whose reply queue it is depends on the app, and these are two.
    options = {"reply_to": "caller", **options}
    leased = lab.task(name="same")(_body)
    queue = options.get("queue", "")
    leased.apply_async((1,), {"y": 2}, task_id="one", **deepcopy(options))
    ours = _ours(taken(lab.app, queue))
    plain.apply_async((1,), {"y": 2}, task_id="one", **deepcopy(options))
    assert ours == taken(plain.app, queue)


def test_rpc_results_are_asked_for_as_celery_asks(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(result_backend="rpc://")
    leased = lab.task(name="same")(_body)
    leased.delay(1)
    assert taken(lab.app)["reply_to"] == lab.app.thread_oid


def test_a_time_is_the_jobs_and_no_part_of_its_message(lab: Lab) -> None:
    leased = lab.task()(_body)
    job = leased.apply_async((1,), countdown=60, expires=90).job
    headers = Message.loads(job.message).headers
    assert (headers["eta"], headers["expires"]) == (None, None)
    assert 59 < job.available_at - job.created_at < 61
    assert 89 < job.expires_at - job.created_at < 91


@pytest.mark.parametrize("options", OPTIONS[:5], ids=lambda o: "-".join(o) or "plain")
def test_a_republished_message_differs_in_its_retries_alone(
    lab: Lab, options: dict[str, Any]
) -> None:
    leased = lab.task()(_body)
    job = leased.apply_async((1,), **deepcopy(options)).job
    first = taken(lab.app)
    sent = Publisher(lab.app).publish([Due(job.id, job.message, job.body, 3)])
    again = taken(lab.app)
    assert sent.task_ids == [job.id]
    assert (first["headers"].pop("retries"), again["headers"].pop("retries")) == (0, 3)
    assert first == again


def test_followers_are_copies_with_ids(lab: Lab) -> None:
    leased = lab.task()(_body)
    chain = leased.s(1) | leased.s(2)
    group = chain | leased.s(3)
    links, errors = [leased.s(4), group], [leased.si(5)]
    before = deepcopy([dict(s) for s in (*links, *errors)])
    jobs = [leased.apply_async((1,), link=links, link_error=errors).job for _ in range(2)]
    assert [dict(s) for s in (*links, *errors)] == before
    ids = [_follower_ids(job) for job in jobs]
    assert len({*ids[0], *ids[1]}) == 6
    assert None not in ids[0] + ids[1]


def _follower_ids(job: Any) -> list[str | None]:
    _, _, embed = decoded(Message.loads(job.message), job.body)
    followers = [*(embed["callbacks"] or []), *(embed["errbacks"] or [])]
    return [_last(follower)["options"].get("task_id") for follower in followers]


def _last(follower: Any) -> Any:
    """What gives a chain its id; older Celery keeps none for the chain itself."""
    tasks = follower["kwargs"].get("tasks")
    return tasks[-1] if tasks else follower


def test_a_follower_that_has_an_id_keeps_it(lab: Lab) -> None:
    leased = lab.task()(_body)
    job = leased.apply_async((1,), link=leased.s(1).set(task_id="mine")).job
    assert _follower_ids(job) == ["mine"]


def _circular() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize("make", [object, _circular, lambda: {1}, lambda: 1j])
def test_arguments_that_cannot_be_sent_leave_nothing(lab: Lab, make: Any) -> None:
    leased = lab.task()(_body)
    with pytest.raises(MessageNotSerialisable, match="arguments of"):
        leased.apply_async((make(),), task_id="bad")
    with pytest.raises(MessageNotSerialisable):
        leased.apply_async((1,), task_id="bad", link=leased.s(make()))
    assert lab.store.get("bad") is None
    assert lab.store.counts().by_state == {}


def test_celerys_own_check_of_the_signature_comes_first(lab: Lab) -> None:
    leased = lab.task()(_body)
    with pytest.raises(TypeError, match="missing 1 required"):
        leased.apply_async(task_id="bad")
    assert lab.store.get("bad") is None
