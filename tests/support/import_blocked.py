"""Run as a script: imports every module of a package as if some of it had been deleted.

Arguments: the package, then the modules to block. Prints what could not be imported.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING

from tests.support.import_graph import is_within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class Blocker(MetaPathFinder):
    """Answers for the blocked modules before anybody else does: they do not exist."""

    def __init__(self, blocked: Sequence[str]) -> None:
        self._blocked = blocked

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if any(is_within(fullname, one) for one in self._blocked):
            message = f"No module named {fullname!r} (blocked)"
            raise ModuleNotFoundError(message, name=fullname)
        return None


def failures(package: str, blocked: Sequence[str]) -> Iterator[str]:
    # Django's modules cannot be imported without settings, whatever else is there.
    left_out = [*blocked, f"{package}.django"]
    for name in _names(package):
        if any(is_within(name, one) for one in left_out):
            continue
        try:
            importlib.import_module(name)
        except ImportError as error:
            yield f"{name}: {error}"


def _names(package: str) -> list[str]:
    root = importlib.import_module(package)
    return [package, *(m.name for m in pkgutil.walk_packages(root.__path__, f"{package}.", _skip))]


def _skip(_: str) -> None:
    """A package that cannot be imported is reported when its turn comes."""


if __name__ == "__main__":
    _package, *_blocked = sys.argv[1:]
    sys.meta_path.insert(0, Blocker(_blocked))
    sys.exit("\n".join(failures(_package, _blocked)))
