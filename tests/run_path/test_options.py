"""Options come from the task, Celery's settings or Django's, and wrong ones are refused early."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery

from celery_lease import Backoff, LeasedTask
from celery_lease.errors import ConfigurationError, UnknownOption
from celery_lease.policy import NAMES, Options

if TYPE_CHECKING:
    from tests.run_path.conftest import Lab

#: A value of each option, which is not its default.
VALUES: dict[str, Any] = {
    "store": "memory://options",
    "ttl": 33.0,
    "heartbeat": 11.0,
    "attempt_timeout": 44.0,
    "max_attempts": 9,
    "backoff": [1, 4, 9],
    "retry_on": (ValueError,),
    "give_up_on": (KeyError,),
    "key": "k:{n}",
    "tenant": "t:{n}",
    "on_dead": "replay",
    "retention": 100.0,
    "key_retention": 200.0,
    "sweep_interval": 0.5,
    "republish_after": 60.0,
    "audit": "all",
    "store_args": False,
}


def _body(n: int = 0) -> int:
    return n


def _app(**settings: Any) -> Celery:
    app = Celery("options", set_as_current=False)
    app.conf.update(settings)
    return app


def _django_app(**settings: Any) -> Celery:
    """As `app.config_from_object("django.conf:settings", namespace="CELERY")`."""
    app = Celery("options", set_as_current=False)
    module = types.SimpleNamespace(**{f"CELERY_{name.upper()}": v for name, v in settings.items()})
    app.config_from_object(module, namespace="CELERY")
    return app


def _options(app: Celery, **own: Any) -> Options:
    options: Options = app.task(**{"base": LeasedTask, "shared": False, **own})(_body).lease_options
    return options


@pytest.mark.parametrize("name", NAMES)
def test_an_option_can_be_set_in_every_place(name: str) -> None:
    # An heartbeat alone must fit the default ttl.
    value = 6.0 if name == "heartbeat" else VALUES[name]
    own = {f"lease_{name}": value}
    assert value != getattr(Options(), name)
    assert getattr(_options(_app(), **own), name) == value
    assert getattr(_options(_app(**own)), name) == value
    assert getattr(_options(_django_app(**own)), name) == value


@pytest.mark.parametrize("make", [_app, _django_app])
def test_a_task_comes_before_the_settings(make: Any) -> None:
    app = make(lease_ttl=20, lease_max_attempts=4)
    options = _options(app, lease_ttl=30)
    assert (options.ttl, options.max_attempts) == (30, 4)


def test_a_base_class_passes_its_options_on() -> None:
    class Patient(LeasedTask):
        abstract = True
        lease_ttl = 60
        lease_max_attempts = 2

    options = _options(_app(lease_max_attempts=8), base=Patient, lease_ttl=90)
    assert (options.ttl, options.max_attempts) == (90, 2)


def test_a_call_comes_before_the_task(lab: Lab) -> None:
    @lab.task(lease_max_attempts=5, lease_key="task:{n}")
    def body(n: int) -> None: ...

    result = body.apply_async(
        (1,), countdown=600, lease_max_attempts=2, lease_key="call:{n}", lease_store_args=False
    )
    assert (result.job.max_attempts, result.job.key, result.job.arguments) == (2, "call:1", "")


def test_a_call_option_is_in_force_when_the_job_runs(lab: Lab) -> None:
    @lab.task(bind=True)
    def body(self: Any) -> None:
        lab.note(self.lease.grant.ttl)

    lab.outcome(body, lease_ttl=42)
    assert lab.runs == [42]


def test_the_heartbeat_follows_a_ttl_set_alone() -> None:
    assert _options(_app(lease_ttl=3)).heartbeat == 1


def test_a_list_is_a_backoff() -> None:
    waits = _options(_app(), lease_backoff=[1, 4, 9]).waits
    assert [waits.delay(n) for n in (1, 2, 3, 4)] == [1, 4, 9, 9]


def test_the_ready_made_backoff_lasts_most_of_a_day() -> None:
    waits = _options(_app(), lease_backoff=Backoff.hours()).waits
    assert 3.9 < waits.delay(1) < 6.1
    assert waits.delay(6) > 8 * 3600


def test_an_unknown_option_of_a_task_names_the_nearest() -> None:
    with pytest.raises(UnknownOption, match=r"lease_tll .*lease_ttl"):
        _options(_app(), lease_tll=3)


def test_an_unknown_option_of_a_class_is_refused_when_it_is_declared() -> None:
    with pytest.raises(UnknownOption, match=r"lease_max_atempts .*lease_max_attempts"):
        type("Wrong", (LeasedTask,), {"abstract": True, "lease_max_atempts": 3})


@pytest.mark.parametrize("make", [_app, _django_app])
def test_an_unknown_setting_names_the_nearest(make: Any) -> None:
    with pytest.raises(UnknownOption, match=r"lease_heartbeet .*lease_heartbeat"):
        _options(make(lease_heartbeet=1))


def test_an_unknown_option_of_a_call_names_the_nearest(lab: Lab) -> None:
    @lab.task()
    def body() -> None: ...

    with pytest.raises(UnknownOption, match=r"lease_max_atempts .*lease_max_attempts"):
        body.apply_async(lease_max_atempts=3)


def test_an_option_that_is_none_of_a_call_says_which_are(lab: Lab) -> None:
    @lab.task()
    def body() -> None: ...

    with pytest.raises(UnknownOption, match=r"lease_store cannot be set per call.*lease_ttl"):
        body.apply_async(lease_store="memory://other")


@pytest.mark.parametrize(
    "options", [{"lease_ttl": 10, "lease_heartbeat": 5}, {"lease_heartbeat": 9}]
)
def test_a_heartbeat_of_half_the_ttl_is_refused(options: Any) -> None:
    with pytest.raises(ConfigurationError, match="less than half"):
        _options(_app(), **options)
    with pytest.raises(ConfigurationError, match="less than half"):
        _options(_app(**options))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ttl", 0),
        ("ttl", "15"),
        ("attempt_timeout", -1),
        ("max_attempts", 0),
        ("max_attempts", "6"),
        ("backoff", "1,2"),
        ("backoff", []),
        ("retry_on", ValueError),
        ("key", 5),
        ("on_dead", "revive"),
        ("audit", "some"),
        ("retention", 0),
        ("sweep_interval", 0),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"lease_{name}"):
        _options(_app(), **{f"lease_{name}": value})


def test_another_call_in_front_is_refused() -> None:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any: ...

    with pytest.raises(ConfigurationError, match="lease_body"):
        type("Wrapped", (LeasedTask,), {"abstract": True, "__call__": call})
    mixin = type("Mixin", (), {"__call__": call})
    with pytest.raises(ConfigurationError, match="lease_body"):
        type("Mixed", (mixin, LeasedTask), {"abstract": True})


def test_lease_body_wraps_the_body(lab: Lab) -> None:
    class InContext(LeasedTask):
        abstract = True

        def lease_body(self, call: Any) -> Any:
            lab.note("enter")
            return call()

    @lab.task(base=InContext)
    def body() -> None:
        lab.note("body")

    lab.outcome(body)
    assert lab.runs == ["enter", "body"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (None, "lease_store is not set; write lease_store = "),
        ("", "lease_store is not set; write lease_store = "),
        ("postgres", "'postgres' is not a store URL; write lease_store = "),
        ("http://[::1", "is not a store URL; write lease_store = "),
        (5, "5 is not a store URL; write lease_store = "),
        ("django://nowhere", "names no database; valid are django://default"),
    ],
)
def test_a_submission_without_a_store_says_what_to_write(url: Any, said: str) -> None:
    app = _app(lease_store=url, broker_url="memory://")
    task = app.task(base=LeasedTask, shared=False)(_body)
    with pytest.raises(ConfigurationError) as refused:
        task.delay()
    assert said in str(refused.value)
