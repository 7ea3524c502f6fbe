"""Who imports whom in a package, read from its source without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Kind(Enum):
    """When the import happens."""

    LOAD = "while the importer loads"
    CALL = "when a function is called"
    TYPES = "never, a type checker reads it"


@dataclass(frozen=True)
class Import:
    """One imported module, by full name."""

    importer: str
    target: str
    line: int
    kind: Kind

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


@dataclass(frozen=True)
class Package:
    """The source tree of one package."""

    root: Path

    def modules(self) -> dict[str, Path]:
        """Every module's file by its dotted name."""
        return {self._name(path): path for path in sorted(self.root.rglob("*.py"))}

    def imports(self) -> list[Import]:
        modules = self.modules()
        return [one for name, path in modules.items() for one in _imports_of(name, path, modules)]

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self.root.parent).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _imports_of(name: str, path: Path, modules: dict[str, Path]) -> list[Import]:
    return [
        Import(name, target, node.lineno, kind)
        for node, kind in _walk(ast.parse(path.read_text()), Kind.LOAD)
        for target in _targets(node, _package_of(name, path), modules)
    ]


def _walk(node: ast.AST, kind: Kind) -> Iterator[tuple[ast.AST, Kind]]:
    for child in ast.iter_child_nodes(node):
        inner = _kind_within(child) or kind
        yield child, inner
        yield from _walk(child, inner)


def _kind_within(node: ast.AST) -> Kind | None:
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return Kind.TYPES
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return Kind.CALL
    return None


def _package_of(name: str, path: Path) -> str:
    return name if path.name == "__init__.py" else name.rpartition(".")[0]


def _targets(node: ast.AST, package: str, modules: dict[str, Path]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = _absolute(node, package)
        names = [f"{base}.{alias.name}" for alias in node.names]
        # `from a import b` means the module a.b where there is one, else a name in a.
        return sorted({name if name in modules else base for name in names})
    return []


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])
