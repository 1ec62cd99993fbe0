"""What the command changes about its whole process; in Python that is left to whoever owns it."""

from __future__ import annotations

import contextlib
import ctypes
import sys

import torch

from recollect.errors import OptionError

__all__ = ["settle_process"]


def settle_process(threads: int) -> None:
    """Threads of torch, and memory that is kept when it is freed."""
    if threads < 1:
        raise OptionError("threads", "be at least 1", threads)
    torch.set_num_threads(threads)
    if sys.platform == "linux":  # giving memory back and asking again costs more than small updates do
        with contextlib.suppress(OSError, AttributeError):
            tune = ctypes.CDLL(None).mallopt
            tune(-3, 1 << 25)  # blocks below this are not mapped by themselves; more than this glibc refuses
            tune(-1, 1 << 30)  # how much may stay free at the end
