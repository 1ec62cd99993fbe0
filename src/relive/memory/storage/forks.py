"""Fork handlers of storage."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["kept_from_children", "tell_of_forks"]


class Forked(Protocol):
    """Something with locks that belong to one process."""

    def forked(self) -> None:
        """Forget the parent's locks in a child, so that they end with the parent."""
        ...


_told: weakref.WeakSet[Forked] = weakref.WeakSet()
_locked: set[int] = set()


def tell_of_forks(ground: Forked) -> None:
    """Have ``forked`` called in children from now on."""
    _told.add(ground)


@contextmanager
def kept_from_children(file: int) -> Iterator[None]:
    """Close a file in children forked meanwhile: they would inherit its lock."""
    _locked.add(file)
    try:
        yield
    finally:
        _locked.discard(file)


def _after_fork() -> None:
    for ground in list(_told):
        ground.forked()
    for file in _locked:
        os.close(file)
    _locked.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
