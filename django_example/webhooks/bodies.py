"""A request's raw bytes, read once and never more than may be stored."""

from django.http import HttpRequest, UnreadablePostError

from django_example.webhooks.refusals import invalid_json, too_large


def read_body(request: HttpRequest, limit: int) -> bytes:
    """Return the body as it came.

    Raises:
        Refusal: ``TOO_LARGE`` if it has more than ``limit`` bytes, ``INVALID_JSON``
            if the sender hung up in the middle.
    """
    try:
        body = request.read(limit + 1)
    except UnreadablePostError as error:
        raise invalid_json("The body ended early.") from error
    if len(body) > limit:
        raise too_large(limit)
    return body
