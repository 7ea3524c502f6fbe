"""Hands recorded outcomes to Celery, with the followers of the claimed submission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery.app.task import Context
from celery.exceptions import Ignore, TaskRevokedError

from celery_lease.job import Job, State, Unsettled
from celery_lease.message import Message, decoded, revision
from celery_lease.results import decoded as decoded_result
from celery_lease.results import recorded_exception
from celery_lease.submission import FOLLOWERS, kept_until

if TYPE_CHECKING:
    from celery_lease.attempt import Attempt


def use_stored_message(attempt: Attempt, job: Job) -> None:
    """Take the stored arguments if `retry(args=…)` has replaced those of the delivered hint."""
    if '"rev"' not in job.message:
        return
    message = Message.loads(job.message)
    if revision(message.headers) != revision(vars(attempt.request)):
        args, kwargs, _ = decoded(message, job.body)
        attempt.args, attempt.kwargs = args, kwargs
        attempt.request.update(args=args, kwargs=kwargs)


def use_followers(request: Any, message: Message, body: bytes) -> None:
    """Let the tracer hand out the stored followers, whose ids are fixed."""
    _, _, embed = decoded(message, body)
    request.update({name: embed.get(name) for name in FOLLOWERS.values()})


def hand_out(attempt: Attempt, claim: Unsettled) -> Any:
    """The recorded outcome, as the tracer takes it.

    Raises:
        Ignore: The job was cancelled, and that has been handed out.
        Exception: The job is dead; looks like the recorded failure.
    """
    if kept_until(attempt.request) is None:
        use_followers(attempt.request, Message.loads(claim.message), claim.body)
    if claim.job.state is State.SUCCEEDED:
        return decoded_result(claim.job.result)
    if claim.job.state is State.DEAD:
        raise recorded_exception(claim.job.failure)
    _hand_out_cancelled(attempt)
    raise Ignore("cancelled")


def _hand_out_cancelled(attempt: Attempt) -> None:
    request, backend = attempt.request, attempt.task.backend
    backend.mark_as_revoked(
        request.id, "cancelled", request=request, store_result=not request.ignore_result
    )
    for element in request.chain or ():
        _fail_link(backend.wrapped, element, TaskRevokedError("cancelled"))


def _fail_link(backend: Any, element: Any, exc: Exception) -> None:
    """End a task that was to follow in the chain, so that nobody waits for it."""
    options = element.get("options") or {}
    if task_id := options.get("task_id"):
        link = Context(element, **options)
        link.update(id=task_id, group=options.get("group_id"), errbacks=options.get("link_error"))
        backend.mark_as_failure(task_id, exc, request=link)
