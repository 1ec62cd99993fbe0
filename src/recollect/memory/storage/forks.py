"""Storage that has to know when its process has been forked."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["tell_of_forks"]


class Forked(Protocol):
    """Something with locks that belong to one process."""

    def forked(self) -> None:
        """Forget the parent's locks in a child, so that they end with the parent."""
        ...


_told: weakref.WeakSet[Forked] = weakref.WeakSet()


def tell_of_forks(ground: Forked) -> None:
    """Have ``forked`` called in children from now on."""
    _told.add(ground)


def _after_fork() -> None:
    for ground in list(_told):
        ground.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
