"""What to do about a message whose job the store does not know, or cannot be asked for."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from celery.exceptions import Reject

from celery_lease.handover import use_followers
from celery_lease.job import Claim, Gone
from celery_lease.message import HEADER
from celery_lease.submission import from_request, kept_until, own_header

if TYPE_CHECKING:
    from celery_lease.attempt import Attempt

logger = logging.getLogger(__name__)

#: Seconds before a hint that could not be used is delivered again, doubled up to the last.
FIRST_DELAY, LAST_DELAY = 2.0, 60.0


def resolve(attempt: Attempt) -> Claim:
    """Answer for a job the store does not know.

    Only messages of other senders may create a job here. Ours say until when
    their row is kept: missing before that it is a fault of the store, so the
    hint is kept alive; missing later it was pruned.
    """
    keep_until = kept_until(attempt.request)
    if keep_until is None:
        return _create(attempt)
    if time.time() < keep_until:
        logger.error(
            "job %s is missing although it is kept until %s: wrong lease_store, "
            "or a restored backup? Its message is delivered again",
            attempt.task_id,
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(keep_until)),
        )
        hint_later(attempt, "job is missing")
    else:
        logger.info("job %s was pruned, its late message is dropped", attempt.task_id)
    return Gone()


def _create(attempt: Attempt) -> Claim:
    prepared = from_request(attempt.task, attempt.request)
    # A message of another sender is already due, whatever its eta was.
    attempt.runtime.store.submit([replace(prepared.new, delay=0.0)])
    use_followers(attempt.request, prepared.built.message, prepared.built.body)
    return attempt.claim()


def hint_later(attempt: Attempt, reason: str) -> None:
    """Publish the hint again with a delay, so that this one can be acknowledged.

    No broker requeues with a delay, and one without would spin.

    Raises:
        Reject: The broker does not take it either; the message is requeued.
    """
    request = attempt.request
    own = dict(own_header(request))
    own["tries"] = own.get("tries", 0) + 1
    delay = min(FIRST_DELAY * 2 ** (own["tries"] - 1), LAST_DELAY)
    built = from_request(attempt.task, request).built
    message = replace(built.message, headers={**built.message.headers, HEADER: own})
    try:
        attempt.runtime.publisher.hint_later(message, built.body, delay)
    except Exception as refused:
        raise Reject(str(refused), requeue=True) from refused
    logger.warning("%s is delivered again in %.0f s: %s", attempt.task_id, delay, reason)
