"""What tasks did, in a folder that outlives every worker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One line: its name, the token of the attempt and the process that wrote it."""

    name: str
    token: int
    pid: int


class Diary:
    """Appends lines and holds tasks back.

    Args:
        folder: An existing folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    @property
    def env(self) -> dict[str, str]:
        return {"DIARY": str(self._folder)}

    def write(self, name: str, token: int) -> None:
        """One `write` call on a file opened for appending, so that lines never mix."""
        line = f"{name}\t{token}\t{os.getpid()}\n".encode()
        lines = os.open(self._folder / "lines", os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        try:
            os.write(lines, line)
        finally:
            os.close(lines)

    def entries(self, name: str | None = None) -> list[Entry]:
        path = self._folder / "lines"
        lines = path.read_text().splitlines() if path.exists() else []
        parts = [line.split("\t") for line in lines]
        entries = [Entry(word, int(token), int(pid)) for word, token, pid in parts]
        return [entry for entry in entries if name in (None, entry.name)]

    def count(self, name: str) -> int:
        return len(self.entries(name))

    def release(self, name: str) -> None:
        """Let `hold(name)` end."""
        (self._folder / f"release-{name}").touch()

    def is_released(self, name: str) -> bool:
        return (self._folder / f"release-{name}").exists()
