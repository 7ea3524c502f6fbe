"""A store with one of its guards removed."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

from celery_lease.stores import memory

if TYPE_CHECKING:
    from celery_lease.clock import Clock
    from celery_lease.stores.memory import MemoryStore


def mutated(clock: Clock, guard: str, removed: str) -> MemoryStore:
    """The memory store, `guard` replaced by `removed` in its source.

    Raises:
        AssertionError: The source has no such guard.
    """
    source = inspect.getsource(memory)
    assert guard in source, f"memory.py no longer reads {guard!r}; write the mutant anew"
    module: dict[str, Any] = {"__name__": memory.__name__}
    code = compile(source.replace(guard, removed), f"<memory.py without {guard}>", "exec")
    exec(code, module)  # noqa: S102 - our own source
    return cast("MemoryStore", module["MemoryStore"](clock))
