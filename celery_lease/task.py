"""`LeasedTask`: the base class that makes a Celery task a durable, leased job."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from celery import Task
from celery.utils import uuid

from celery_lease import signals, worker
from celery_lease.attempt import Attempt, current
from celery_lease.errors import ConfigurationError, LeaseError, NoLease
from celery_lease.job import Due, Submitted
from celery_lease.message import HEADER
from celery_lease.policy import PREFIX, RESERVED, Options, from_sources, known
from celery_lease.results import LeasedResult
from celery_lease.retrying import RetryCall, retry
from celery_lease.runtime import runtime_of
from celery_lease.settling import SettlingBackend, attempt_of
from celery_lease.submission import Call, Prepared, changes_of, prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery import Celery

    from celery_lease.lease import Lease
    from celery_lease.publisher import Sent

logger = logging.getLogger(__name__)

#: What `apply` takes that belongs to the run in place, not to the message.
_EAGER_ONLY = ("throw", "logfile", "loglevel", "retries")


class LeasedTask(Task):
    """A Celery task whose runs are attempts of a durable job under a fenced lease.

    Use it as a base class and set `lease_store`; see the options of `policy.Options`.
    Exceptions are retried with a backoff unless they say otherwise.
    """

    abstract = True
    Request = "celery_lease.request:LeasedRequest"
    acks_late = True
    reject_on_worker_lost = True
    retry_on_worker_lost = False
    #: Celery writes STARTED before the claim, over a SUCCESS that is there already.
    track_started = False
    #: `lease_max_attempts` counts; set this to let `retry()` give up earlier.
    max_retries = None
    #: The backoff decides; set this to let `retry()` wait otherwise.
    default_retry_delay = None

    _lease_options: ClassVar[Options | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check the declaration.

        Raises:
            ConfigurationError: An option is unknown or wrong, or `__call__` is overridden.
        """
        super().__init_subclass__(**kwargs)
        if cls.__call__ is not LeasedTask.__call__:
            raise ConfigurationError(
                f"{cls.__name__} puts another __call__ before LeasedTask's; "
                "override lease_body(self, call) instead"
            )
        if "backend" in vars(cls):
            # `@app.task(backend=...)` would hide the property that settles jobs.
            cls._backend = vars(cls)["backend"]
            del cls.backend
        # Values are judged once the app is known: its settings may go with them.
        for name in _declared(cls):
            known(name)

    @classmethod
    def on_bound(cls, app: Celery) -> None:
        """Read the options of the task, the app and Django; install the worker's part.

        Raises:
            ConfigurationError: An option is unknown or wrong.
        """
        super().on_bound(app)
        cls._lease_options = from_sources(_declared(cls), _configured(app))
        worker.install(app)

    @property
    def lease_options(self) -> Options:
        """The options in force."""
        if self._lease_options is None:
            # Tasks are bound to their app when they are first used.
            self._get_app()
        return self._lease_options or Options()

    # -- submitting ----------------------------------------------------------

    def apply_async(  # noqa: PLR0913, PLR0917 - Celery's signature
        self,
        args: Any = None,
        kwargs: Any = None,
        task_id: str | None = None,
        producer: Any = None,
        link: Any = None,
        link_error: Any = None,
        shadow: str | None = None,
        **options: Any,
    ) -> Any:
        """Record the job, then publish its message; takes what Celery's own takes.

        Inside a transaction of the store's database the job belongs to it and
        the message leaves after the commit. A broker that is down is no
        error: the message is published by a worker's sweeper.

        Returns:
            LeasedResult: With `.job` and `.duplicate`.

        Raises:
            StoreUnavailable: Nothing was recorded, nothing published.
            OperationKeyConflict: The key's job has other arguments.
            MessageNotSerialisable: The serializer refuses the arguments.
            ConfigurationError: An option is wrong.
        """
        if self._get_app().conf.task_always_eager:
            # Celery would let a serializer's error through as it is.
            prepare(self, self._call(args, kwargs, task_id, shadow, options))
            return super().apply_async(
                args, kwargs, task_id, producer, link, link_error, shadow, **options
            )
        call = self._call(args, kwargs, task_id, shadow, options)
        call.options.update(link=link, link_error=link_error)
        trail = call.options.pop("add_to_parent", True)
        prepared = prepare(self, call)
        submitted = self._submit(prepared, producer)
        result: LeasedResult = prepared.built.result
        store = runtime_of(self.app, prepared.options).store
        result.attach(store, submitted.task_id, duplicate=not submitted.created)
        parent = self.app.current_worker_task
        if trail and parent:
            parent.add_trail(result)
        return result

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Record the job and run it here and now; takes what Celery's own takes.

        Raises:
            StoreUnavailable, OperationKeyConflict, MessageNotSerialisable: As `apply_async`.
        """
        own = {n: options.pop(n) for n in list(options) if n.startswith(PREFIX)}
        if not options.get("retries"):
            options["task_id"] = self._submit_eagerly(args, kwargs, {**options, **own})
            headers = options.get("headers") or {}
            options["headers"] = {**headers, HEADER: {"set": changes_of(own)}}
        return super().apply(args, kwargs, **options)

    def _submit_eagerly(self, args: Any, kwargs: Any, options: dict[str, Any]) -> str:
        sending = {name: value for name, value in options.items() if name not in _EAGER_ONLY}
        call = self._call(args, kwargs, sending.pop("task_id", None), None, sending)
        prepared = prepare(self, call)
        runtime_of(self.app, prepared.options).store.submit([replace(prepared.new, delay=0.0)])
        return call.task_id

    def _call(
        self, args: Any, kwargs: Any, task_id: str | None, shadow: str | None, options: Any
    ) -> Call:
        args, kwargs = tuple(args or ()), dict(kwargs or {})
        if self.typing and hasattr(self, "__header__"):
            self.__header__(*args, **kwargs)
        shadow = shadow or self.shadow_name(args, kwargs, options)
        merged = {**self._get_exec_options(), **options, "shadow": shadow}
        merged.setdefault("ignore_result", self.ignore_result)
        dump = getattr(self, "_dump_pydantic_arguments", None)
        if dump is not None and merged.get("serializer") != "pickle":
            args, kwargs = dump(args, kwargs)
        return Call(args, kwargs, task_id or uuid(), merged)

    def _submit(self, prepared: Prepared, producer: Any) -> Submitted:
        store = runtime_of(self.app, prepared.options).store
        [submitted] = store.submit([prepared.new])
        if submitted.due_now:
            publishing = _Publishing(self, prepared, producer)
            store.after_commit(publishing)
            # The caller's producer is its own again once we have returned.
            publishing.producer = None
        if not submitted.created:
            signals.job_duplicate.send(self, job=submitted.job, task_id=submitted.task_id)
        return submitted

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """Submit when Django's transaction commits; with `django://` plain `delay` does too."""
        _on_commit(partial(self.delay, *args, **kwargs))

    def apply_async_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """Submit when Django's transaction commits; see `delay_on_commit`."""
        _on_commit(partial(self.apply_async, *args, **kwargs))

    def AsyncResult(self, task_id: str, **kwargs: Any) -> LeasedResult:  # noqa: N802 - Celery's
        """A result that asks the job store where the backend knows nothing final."""
        result = LeasedResult(
            task_id, backend=self.backend.wrapped, task_name=self.name, app=self.app, **kwargs
        )
        result.attach(runtime_of(self.app, self.lease_options).store, task_id, duplicate=False)
        return result

    # -- running -------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the body: under a lease when the tracer calls, plainly otherwise."""
        request = self.request_stack.top
        if request is None or request.called_directly or attempt_entered(request):
            return super().__call__(*args, **kwargs)
        request.update(_lease_entered=True)
        return Attempt(self, request, args, kwargs).run(self._body)

    def _body(self, args: Any, kwargs: Any) -> Any:
        return self.lease_body(lambda: self.run(*args, **kwargs))

    def lease_body(self, call: Callable[[], Any]) -> Any:
        """Run the body; override to wrap it, in an app context for instance."""
        return call()

    @property
    def lease(self) -> Lease:
        """The lease of the attempt that is running.

        Raises:
            NoLease: There is none, as in a direct call.
        """
        return current_lease()

    def retry(  # noqa: PLR0913, PLR0917 - Celery's signature
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: BaseException | None = None,
        throw: bool = True,  # noqa: FBT001, FBT002 - Celery's signature
        eta: Any = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Any:
        """Try again later, with other arguments if given; takes what Celery's own takes.

        Raises:
            celery.exceptions.Retry: Always, unless `throw` is false.
            BaseException: No attempts are left: `exc`, or `MaxRetriesExceededError`.
        """
        attempt = attempt_of(self.request)
        if attempt is None:
            return super().retry(args, kwargs, exc, throw, eta, countdown, max_retries, **options)
        wanted = retry(attempt, RetryCall(args, kwargs, exc, eta, countdown, max_retries, options))
        if throw:
            raise wanted
        return wanted

    def on_replace(self, sig: Any) -> Any:
        """Note that `replace()` ends this job."""
        if attempt := attempt_of(self.request):
            attempt.replaced = True
        return super().on_replace(sig)

    @property
    def backend(self) -> Any:
        """Celery's result backend, behind the proxy that settles jobs."""
        raw = self._backend if self._backend is not None else self._get_app().backend
        return SettlingBackend(raw, self)

    @backend.setter
    def backend(self, value: Any) -> None:
        self._backend = value


class _Publishing:
    """Publishes one submission; never raises, since the job is safe already."""

    def __init__(self, task: LeasedTask, prepared: Prepared, producer: Any) -> None:
        self._runtime = runtime_of(task.app, prepared.options)
        self._prepared = prepared
        self.producer = producer

    def __call__(self) -> None:
        new, publisher = self._prepared.new, self._runtime.publisher
        sent = publisher.publish([Due(new.id, new.message, new.body, 0)], self.producer)
        if sent.task_ids:
            self._note(sent)
        if sent.task_ids and self._prepared.built.sent_event:
            publisher.announce(self._prepared.built.sent_event, self.producer)

    def _note(self, sent: Sent) -> None:
        wait = self._prepared.options.republish_after
        try:
            self._runtime.store.published(sent.task_ids, wait, sent.epoch)
        except LeaseError as down:
            logger.warning("message of %s left but is not noted: %s", sent.task_ids[0], down)


def attempt_entered(request: Any) -> bool:
    """Whether the tracer's one call for this request has been made already."""
    return getattr(request, "_lease_entered", False)


def current_lease() -> Lease:
    """The lease of the attempt that is running here.

    Raises:
        NoLease: There is none.
    """
    lease = current.get()
    if lease is None:
        raise NoLease
    return lease


def _declared(cls: type) -> dict[str, Any]:
    """The `lease_*` attributes of a class and its bases, nearest first."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if name.startswith(PREFIX) and name not in RESERVED:
                found.setdefault(name, value)
    return found


def _configured(app: Celery) -> dict[str, Any]:
    """The `lease_*` settings of Celery, or `CELERY_LEASE_*` where it reads Django's."""
    # Listing them makes Celery load its configuration, which then knows its namespace.
    spellings = list(app.conf)
    namespace = getattr(app.conf, "prefix", None) or "CELERY_"
    found: dict[str, Any] = {}
    for spelled in spellings:
        if name := _setting(str(spelled), namespace):
            found[name] = app.conf.get(name, app.conf[spelled])
    return {name: value for name, value in found.items() if value is not None}


def _setting(spelled: str, namespace: str) -> str | None:
    """The option a setting means; a bare `LEASE_*` of a Django project is its own affair."""
    is_ours = spelled.upper().startswith(namespace.upper())
    name = spelled[len(namespace) :].lower() if is_ours else spelled
    if not name.startswith(PREFIX):
        return None
    known(name)
    return name


def _on_commit(submit: Callable[[], Any]) -> None:
    # Celery's own module, so that Django is imported only where it is installed.
    from celery.contrib.django import task  # noqa: PLC0415

    task.transaction.on_commit(submit)
