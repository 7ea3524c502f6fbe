"""The admin shows jobs and changes none, at a cost that does not grow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from celery_lease.job import Failure
from celery_lease.testing.contract.scene import (
    FAILURE,
    PAST_TTL,
    TASK,
    bury,
    claim,
    finish,
    hold_new,
    new,
    submit,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_lease.stores.base import JobStore

LIST = reverse("admin:celery_lease_job_changelist")
EVIL = "<script>alert(1)</script>"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"


@pytest.fixture
def admin(store: JobStore) -> Client:
    """Logged in as somebody who may do everything."""
    del store  # its database
    return logged_in(User.objects.create_superuser("ada"))


@pytest.fixture
def reader(store: JobStore) -> Client:
    """Logged in as somebody who may only look at jobs."""
    del store
    user = User.objects.create_user("rea", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_job"))
    return logged_in(user)


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def detail(job_id: str) -> str:
    return reverse("admin:celery_lease_job_change", args=[quote(job_id)])


def page(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200
    return response.content.decode()


def listed(client: Client, **parameters: str) -> set[str]:
    response = client.get(LIST, parameters)
    assert response.status_code == 200
    return {job.id for job in response.context["cl"].result_list}


def statements(client: Client, url: str) -> list[str]:
    page(client, url)  # from the first page on, Django remembers the content types
    with CaptureQueriesContext(connection) as captured:
        page(client, url)
    return [query["sql"] for query in captured]


def busy_job(store: JobStore, task_id: str, joined: int, failures: int) -> None:
    """A job that was tried, joined and is held."""
    first = replace(new(task_id, f"key of {task_id}"), max_attempts=failures + 2)
    grant = hold_new(store, first)
    store.submit([replace(first, id=f"{task_id}+{n}") for n in range(joined)])
    for _ in range(failures):
        store.fail(grant, FAILURE, retry_in=0)
        grant = store.claim(task_id, task=TASK, owner="o", ttl=60).grant
    store.fail(grant, FAILURE, retry_in=0)
    claim(store, task_id)


def test_list_shows_each_column(store: JobStore, admin: Client) -> None:
    submit(store, replace(new("a"), task="shop.tasks.charge", tenant="acme", queue="fast"))
    hold_new(store, new("b"))
    text = page(admin, LIST)
    assert '<span title="shop.tasks.charge">charge</span>' in text
    for expected in ("acme", "fast", "0/6", "1/6", "lease-pending", "lease-running", "s left"):
        assert expected in text


def test_list_is_newest_first(
    store: JobStore, admin: Client, elapse: Callable[[float], None]
) -> None:
    for task_id in "abc":
        submit(store, new(task_id))
        elapse(1)
    jobs = admin.get(LIST).context["cl"].result_list
    assert [job.id for job in jobs] == ["c", "b", "a"]


def test_filters(store: JobStore, admin: Client, elapse: Callable[[float], None]) -> None:
    finish(store, new("done"))
    elapse(2 * 86_400)
    hold_new(store, new("slipped"))
    elapse(PAST_TTL)
    hold_new(store, new("held"))
    bury(store, new("dead"))
    assert listed(admin, state="succeeded") == {"done"}
    assert listed(admin, state="running") == {"held", "slipped"}
    assert listed(admin, lease="live", state="running") == {"held"}
    assert listed(admin, lease="expired") == {"slipped"}
    assert listed(admin, lease="none") == {"done"}
    assert listed(admin, period="24h") == {"slipped", "held", "dead"}
    assert listed(admin, period="7d") == {"done", "slipped", "held", "dead"}
    assert listed(admin, state="no such state") == {"done", "slipped", "held", "dead"}


def test_search_is_exact(store: JobStore, admin: Client) -> None:
    submit(store, new("first", "order-1"))
    submit(store, new("second", "order-1"))
    submit(store, new("third", "order-11"))
    for term in ("first", "order-1", " order-1 ", "second"):
        assert listed(admin, q=term) == {"first"}
    for term in ("FIRST", "order", "order-", "irst"):
        assert listed(admin, q=term) == set()


def test_no_address_scans_the_table(admin: Client) -> None:
    assert admin.get(LIST, {"arguments__contains": "x"}).status_code == 400


def test_count_is_capped(store: JobStore, admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("celery_lease.django.admin.listing.CAP", 3)
    store.submit([new(f"job {n}") for n in range(3)])
    assert "There are more" not in page(admin, LIST)
    submit(store, new("one more"))
    assert "There are more" in page(admin, LIST)
    assert admin.get(LIST).context["cl"].result_count == 3


@pytest.mark.parametrize("address", ["", "?q=job+1", "?state=running", "?lease=live", "?period=1h"])
def test_list_costs_the_same_for_any_number(store: JobStore, admin: Client, address: str) -> None:
    busy_job(store, "job 1", joined=1, failures=1)
    one = statements(admin, LIST + address)
    for n in range(2, 101):
        hold_new(store, new(f"job {n}", f"key {n}"))
    many = statements(admin, LIST + address)
    assert len(one) == len(many) <= 8
    assert not any("DISTINCT" in statement for statement in many)
    assert not any('"arguments"' in statement for statement in many)


def test_detail_costs_the_same_for_any_number(store: JobStore, reader: Client) -> None:
    busy_job(store, "few", joined=1, failures=0)
    busy_job(store, "many", joined=100, failures=100)
    few, many = statements(reader, detail("few")), statements(reader, detail("many"))
    assert len(few) == len(many) <= 10


def test_detail_tells_the_story(store: JobStore, reader: Client) -> None:
    busy_job(store, "a", joined=2, failures=1)
    text = page(reader, detail("a"))
    events = ("created", "claimed", "duplicate submitted", "retry scheduled")
    for expected in (*events, "attempt: 3", "a+0", "a+1", FAILURE.code, "line 1\nline 2"):
        assert expected in text


def test_detail_leaves_out_the_oldest_of_too_many_events(
    store: JobStore, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("celery_lease.django.admin.tables.LIMIT", 2)
    finish(store, new("a"))
    text = page(reader, detail("a"))
    assert "Older events are left out" in text
    assert "lease-settled" in text
    assert "lease-created" not in text


def test_what_users_supply_is_escaped(store: JobStore, admin: Client) -> None:
    evil = replace(new(EVIL, EVIL), task=EVIL, arguments=EVIL, tenant=EVIL, queue=EVIL)
    submit(store, evil)
    submit(store, replace(evil, id=f"joined {EVIL}"))
    grant = store.claim(EVIL, task=EVIL, owner=EVIL, ttl=60).grant
    store.save_checkpoint(grant, EVIL)
    store.fail(grant, Failure(EVIL, EVIL, EVIL, traceback=EVIL), retry_in=0)
    store.claim(EVIL, task=EVIL, owner=EVIL, ttl=60)
    for url in (LIST, detail(EVIL)):
        text = page(admin, url)
        assert EVIL not in text
        assert ESCAPED in text


@pytest.mark.parametrize("who", ["admin", "reader"])
def test_nothing_can_be_written(store: JobStore, who: str, request: pytest.FixtureRequest) -> None:
    client: Client = request.getfixturevalue(who)
    submit(store, new("a"))
    assert client.get(reverse("admin:celery_lease_job_add")).status_code == 403
    assert client.post(detail("a"), {"state": "dead"}).status_code == 403
    assert client.post(reverse("admin:celery_lease_job_delete", args=["a"])).status_code == 403
    assert 'name="_save"' not in page(client, detail("a"))


def test_staff_without_the_permission_sees_nothing(store: JobStore) -> None:
    submit(store, new("a"))
    stranger = logged_in(User.objects.create_user("stu", is_staff=True))
    assert stranger.get(LIST).status_code == 403
    assert stranger.get(detail("a")).status_code == 403
