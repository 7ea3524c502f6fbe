"""Operation keys and tenants: templates over a task's bound arguments."""

from __future__ import annotations

import hashlib
import inspect
import re
import string
from typing import TYPE_CHECKING, Any

from celery_lease.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Longest key a store keeps; SQL indexes end there.
MAX_LENGTH = 255


#: Separators a template may use, the escape itself first.
_ESCAPED = "%:/"
#: What PostgreSQL refuses in a text, and what is no text in UTF-8.
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


class _Escaping(string.Formatter):
    """`str.format` whose values cannot imitate the template's own separators."""

    def format_field(self, value: Any, format_spec: str) -> str:
        text: str = super().format_field(value, format_spec)
        for character in _ESCAPED:
            text = text.replace(character, _escape(character))
        return text


def _escape(character: str) -> str:
    return f"%{ord(character):02X}"


_formatter = _Escaping()


def bound_arguments(
    run: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by parameter name with defaults; positional ones by index if unbindable."""
    try:
        bound = inspect.signature(run).bind(*args, **kwargs)
    except TypeError:
        return {**{str(i): value for i, value in enumerate(args)}, **kwargs}
    bound.apply_defaults()
    return dict(bound.arguments)


def render(
    template: str | Callable[..., str] | None,
    option: str,
    run: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> str | None:
    """A key from its template or callable; `None` without one.

    A key longer than `MAX_LENGTH` keeps its beginning and ends in a digest of the whole.

    Raises:
        ConfigurationError: The template names no argument of the task, or gives no text.
    """
    if template is None:
        return None
    if callable(template):
        key = template(*args, **kwargs)
    else:
        key = _format(template, option, bound_arguments(run, args, kwargs))
    if not isinstance(key, str) or not key:
        raise ConfigurationError(f"{option} gave {key!r}; it must give a text that is not empty")
    return _bounded(_UNSTORABLE.sub(lambda found: _escape(found[0]), key))


def _format(template: str, option: str, arguments: dict[str, Any]) -> str:
    flat = {**arguments.get("kwargs", {}), **arguments}
    try:
        return _formatter.vformat(template, (), flat)
    except (KeyError, IndexError, AttributeError) as missing:
        names = ", ".join(sorted(arguments))
        raise ConfigurationError(
            f"{option} {template!r} names {missing}, but the task's arguments are: {names}"
        ) from missing


def _bounded(key: str) -> str:
    if len(key) <= MAX_LENGTH:
        return key
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{key[: MAX_LENGTH - len(digest) - 1]}#{digest}"


def submission_id(task_id: str, nesting: int = 0) -> str:
    """The store's id for a Celery task id.

    `replace()` gives another task the old id; its message counts how often.
    """
    return f"{task_id}~{nesting}" if nesting else task_id
