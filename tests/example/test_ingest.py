"""Every row of the ingest answer table, on each database."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from django.core.exceptions import ValidationError
from django.db import connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from celery_lease.django.models import Job
from django_example.webhooks import signatures
from django_example.webhooks.models import Delivery, Endpoint, Event, Tenant
from tests.example.conftest import Sender, event
from tests.support.databases import default_database

if TYPE_CHECKING:
    from pathlib import Path

    from django.http import HttpResponse

pytestmark = [pytest.mark.urls("django_example.urls"), pytest.mark.usefixtures("endpoint")]

LIMIT = 524_288
DIGEST = "ab" * 32
# The database is one per test, and examples of one test may share it.
shares_database = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def refused(response: HttpResponse, status: int, code: str) -> bool:
    error = response.json()["error"]
    return (response.status_code, error["code"]) == (status, code) and bool(error["message"])


def test_a_new_event_is_stored_and_queued(sender: Sender) -> None:
    body = event(id="evt_new")
    response = sender.post(body)
    delivery = Delivery.objects.get(event__event_id="evt_new")
    assert response.status_code == 202
    assert response.json() == {"accepted": True, "duplicate": False, "jobId": str(delivery.pk)}
    assert bytes(delivery.event.body) == body
    assert Job.objects.get(id=delivery.pk).task == "django_example.webhooks.tasks.deliver"


def test_the_same_event_again_queues_nothing(sender: Sender) -> None:
    body = event()
    first = sender.post(body).json()
    again = sender.post(body)
    assert again.status_code == 200
    assert again.json() == {**first, "duplicate": True}
    assert (Event.objects.count(), Job.objects.count()) == (1, 1)


def test_the_same_id_with_another_body_is_flagged_and_not_delivered(sender: Sender) -> None:
    first, other = event(id="evt_1", payload=1), event(id="evt_1", payload=2)
    sender.post(first)
    answers = [sender.post(other) for _ in range(2)]
    stored = Event.objects.get()
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json()["duplicate"]
    assert (stored.conflict, stored.conflict_count) == (True, 2)
    assert bytes(stored.body) == first
    assert Job.objects.count() == 1


def test_ids_are_told_apart_by_their_bytes(sender: Sender) -> None:
    answers = [sender.post(event(id=one)) for one in ("evt_a", "EVT_A", "evt_ä", "evt_a\u0308")]
    assert [answer.status_code for answer in answers] == [202] * 4


def test_twenty_parallel_posts_make_one_event_and_one_job(sender: Sender) -> None:
    body = event()
    signature = sender.sign(body)
    together = threading.Barrier(20)

    def post() -> int:
        together.wait()
        try:
            return sender.post(body, signature).status_code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(20) as pool:
        answers = sorted(future.result() for future in [pool.submit(post) for _ in range(20)])
    assert answers == [200] * 19 + [202]
    assert (Event.objects.count(), Delivery.objects.count(), Job.objects.count()) == (1, 1, 1)


def test_every_subscribed_endpoint_gets_a_job_of_its_policy(sender: Sender, tenant: Tenant) -> None:
    tenant.endpoints.create(url="http://127.0.0.1:9/patient", policy=Endpoint.Policy.HOURS)
    tenant.endpoints.create(url="http://127.0.0.1:9/choosy", event_types=["order.lost"])
    tenant.endpoints.create(url="http://127.0.0.1:9/off").disable(
        Endpoint.Disabler.OPERATOR, "asked"
    )
    Tenant.objects.create(slug="other", name="Other").endpoints.create(
        url="http://127.0.0.1:9/other"
    )
    sender.post(event())
    tasks = Job.objects.values_list("task", flat=True)
    assert sorted(task.rpartition(".")[2] for task in tasks) == ["deliver", "deliver_patiently"]


def test_an_event_that_nobody_wants_is_kept_without_a_job(
    sender: Sender, endpoint: Endpoint
) -> None:
    endpoint.disable(Endpoint.Disabler.OPERATOR, "asked")
    response = sender.post(event())
    assert (response.status_code, response.json()["jobId"]) == (202, None)


@pytest.mark.parametrize(
    "signature",
    [
        "",
        "nonsense",
        "t=1",
        f"t=1,t=2,v1={DIGEST}",
        f"t=x,v1={DIGEST}",
        "t=1,v1=zz",
        "é",
        "x=" + "y" * 1023,
    ],
)
def test_a_malformed_signature_is_400(sender: Sender, signature: str) -> None:
    assert refused(sender.post(event(), signature), 400, "MALFORMED_SIGNATURE")


def test_whatever_a_tenant_did_not_sign_just_now_gets_one_and_the_same_401(sender: Sender) -> None:
    body = event()
    other = replace(sender, secret=signatures.new_secret())
    answers = [
        replace(sender, slug="nobody").post(body),
        replace(sender, slug="n" * 3000).post(body),
        other.post(body),
        sender.post(body, sender.sign(body + b" ")),
        sender.post(body, sender.sign(body, offset=-600)),
        sender.post(body, sender.sign(body, offset=600)),
        sender.post(body, f"t=999999999999,v1={DIGEST}"),
    ]
    assert all(refused(answer, 401, "INVALID_SIGNATURE") for answer in answers)
    assert len({answer.content for answer in answers}) == 1
    assert not Event.objects.exists()


@pytest.mark.parametrize("offset", [-280, -2, 2, 280])
def test_clocks_may_differ_within_the_tolerance(sender: Sender, offset: int) -> None:
    body = event()
    assert sender.post(body, sender.sign(body, offset)).status_code == 202


def test_secrets_are_rotated_without_a_gap(sender: Sender, tenant: Tenant) -> None:
    new = replace(sender, secret=signatures.new_secret())
    tenant.add_secret(new.secret)
    assert [sender.post(event()).status_code, new.post(event()).status_code] == [202, 202]
    tenant.secrets.get(secret=sender.secret).retire()
    assert [sender.post(event()).status_code, new.post(event()).status_code] == [401, 202]


def test_a_fifth_active_secret_is_refused(sender: Sender, tenant: Tenant) -> None:  # noqa: ARG001
    for _ in range(3):
        tenant.add_secret(signatures.new_secret())
    with pytest.raises(ValidationError, match="Retire one first"):
        tenant.add_secret(signatures.new_secret())


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "INVALID_JSON"),
        (b"{", "INVALID_JSON"),
        (b"[" * 50_000, "INVALID_JSON"),
        (b'{"a": 1, "a": 2}', "INVALID_JSON"),
        (event(id="\ud800\ud800\ud800\ud800"), "INVALID_JSON"),
        (b"[]", "INVALID_EVENT"),
        (event(id="evt"), "INVALID_EVENT"),
        (event(id="x" * 201), "INVALID_EVENT"),
        (event(id="evt_\x00"), "INVALID_EVENT"),
        (event(type="it"), "INVALID_EVENT"),
        (event(createdAt="today"), "INVALID_EVENT"),
        (event(createdAt="0001-01-01T00:00:00+14:00"), "INVALID_EVENT"),
    ],
    ids=lambda value: value[:25] if isinstance(value, bytes) else None,
)
def test_a_body_that_is_no_event_is_400(sender: Sender, body: bytes, code: str) -> None:
    assert refused(sender.post(body), 400, code)


def test_the_longest_and_strangest_ids_are_delivered(sender: Sender) -> None:
    for one in (":" * 200, "😀" * 200, "%/" * 100):
        assert sender.post(event(id=one, type="😀" * 200)).status_code == 202


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_the_ends_of_the_calendar_are_times(sender: Sender, moment: str) -> None:
    assert sender.post(event(createdAt=moment)).status_code == 202


def test_a_body_is_not_read_beyond_the_limit(sender: Sender) -> None:
    frame = len(event(payload=""))
    largest = event(payload="x" * (LIMIT - frame))
    assert sender.post(largest).status_code == 202
    assert refused(sender.post(largest + b" "), 400, "TOO_LARGE")
    assert refused(sender.post(b"x" * (LIMIT * 6), "nonsense"), 400, "TOO_LARGE")


def test_json_is_not_parsed_before_the_signature_passes(sender: Sender) -> None:
    assert refused(sender.post(b"{", sender.sign(b"[")), 401, "INVALID_SIGNATURE")


def test_an_unknown_source_is_404(sender: Sender) -> None:
    assert refused(replace(sender, source="carrier-pigeon/").post(event()), 404, "UNKNOWN_SOURCE")


def test_the_source_is_part_of_the_identity(sender: Sender) -> None:
    body = event()
    assert sender.post(body).status_code == 202
    assert replace(sender, source="default/").post(body).json()["duplicate"]


@pytest.mark.parametrize(
    "url", ["sqlite:////nowhere/at.all", "postgresql://nobody@127.0.0.1:1/nothing"]
)
def test_without_a_database_the_sender_is_asked_to_come_back(url: str, tmp_path: Path) -> None:  # noqa: ARG001
    with default_database(url):
        response = Sender("acme", signatures.new_secret()).post(event())
    assert refused(response, 503, "UNAVAILABLE")


text = st.text(max_size=80)
header_texts = st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), max_size=80)


@shares_database
@given(header=header_texts, body=st.binary())
def test_no_header_and_no_body_cause_a_server_error(
    sender: Sender, header: str, body: bytes
) -> None:
    assert sender.post(body, header).status_code in (400, 401)


@shares_database
@given(data=st.data())
def test_no_change_to_a_good_request_causes_a_server_error(
    sender: Sender, data: st.DataObject
) -> None:
    body = event()
    signature = sender.sign(body)
    position = data.draw(st.integers(0, len(body)))
    changed = body[:position] + data.draw(st.binary(max_size=3)) + body[position + 1 :]
    place = data.draw(st.integers(0, len(signature)))
    spoilt = signature[:place] + data.draw(header_texts) + signature[place + 1 :]
    assert sender.post(changed, spoilt).status_code < 500
    # Signed anew, so that the mutation comes through to the parser.
    assert sender.post(changed).status_code < 500


@shares_database
@given(
    event_id=text, event_type=text, moment=text | st.datetimes().map(str), payload=st.none() | text
)
def test_no_envelope_causes_a_server_error(
    sender: Sender, event_id: str, event_type: str, moment: str, payload: str | None
) -> None:
    body = json.dumps({"id": event_id, "type": event_type, "createdAt": moment, "payload": payload})
    assert sender.post(body.encode()).status_code in (200, 202, 400)


@pytest.mark.parametrize(
    "path",
    ["/webhooks/%00/", "/webhooks/%ff%fe/", "/webhooks/a%2Fb/", "/webhooks//", "/webhooks/é/"],
)
def test_strange_paths_are_not_found(sender: Sender, path: str) -> None:
    assert sender.post_raw(path, event(), {}).status_code == 404


@pytest.mark.parametrize("method", ["get", "put", "delete", "head"])
def test_only_post_is_taken(method: str) -> None:
    from django.test import Client

    assert getattr(Client(), method)("/webhooks/acme/").status_code == 405
