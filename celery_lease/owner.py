"""Who this process is in a store: `host:parent-pid:random:n`.

`n` counts the forks of the parent, so that parent and child both know it
without a word, and a reused pid is another owner.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class _Identity:
    pid: int
    nonce: str
    n: str = "0"
    forks: int = 0


_identity = _Identity(os.getpid(), secrets.token_hex(4))


def owner() -> str:
    """The owner of the leases this process holds."""
    return owner_of_child(None)


def owner_of_child(fork: int | None) -> str:
    """The owner of this process's nth forked child; of this process itself for `None`."""
    n = _identity.n if fork is None else _child(_identity.n, fork)
    return f"{socket.gethostname()}:{_identity.pid}:{_identity.nonce}:{n}"


def is_ours(name: str) -> bool:
    """Whether an owner is this process or one forked from the same parent."""
    return name.startswith(f"{socket.gethostname()}:{_identity.pid}:{_identity.nonce}:")


def _child(n: str, fork: int) -> str:
    return str(fork) if n == "0" else f"{n}.{fork}"


def _count_fork() -> None:
    global _identity  # noqa: PLW0603 - identity is of the process
    _identity = replace(_identity, forks=_identity.forks + 1)


def _become_child() -> None:
    global _identity  # noqa: PLW0603 - identity is of the process
    _identity = replace(_identity, n=_child(_identity.n, _identity.forks), forks=0)


os.register_at_fork(before=_count_fork, after_in_child=_become_child)
