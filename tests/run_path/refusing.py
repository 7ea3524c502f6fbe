"""A result backend that is down for a while."""

from __future__ import annotations

from typing import Any, NoReturn

from celery.backends.cache import CacheBackend


class Refusing(CacheBackend):
    """Refuses the first verdicts, and to show any retry."""

    refusals = 1
    taken = 0

    def _refuse(self) -> None:
        self.refusals -= 1
        if self.refusals >= 0:
            raise ConnectionError("no backend")
        self.taken += 1

    def mark_as_done(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse()
        return super().mark_as_done(*args, **kwargs)

    def mark_as_failure(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse()
        return super().mark_as_failure(*args, **kwargs)

    def mark_as_retry(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise ConnectionError("no backend")
