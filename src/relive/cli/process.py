"""Process-wide settings of the command, which the Python API leaves alone."""

from __future__ import annotations

import contextlib
import ctypes
import sys

import torch

from relive.errors import OptionError

__all__ = ["settle_process"]


def settle_process(threads: int) -> None:
    """Set torch's threads, and let malloc keep freed memory."""
    if threads < 1:
        raise OptionError("threads", "be at least 1", threads)
    torch.set_num_threads(threads)
    if (
        sys.platform == "linux"
    ):  # returning memory to the system and allocating it again costs more than small updates do
        with contextlib.suppress(OSError, AttributeError):
            tune = ctypes.CDLL(None).mallopt
            tune(-3, 1 << 25)  # blocks below this are not mapped by themselves; more than this glibc refuses
            tune(-1, 1 << 30)  # how much may stay free at the end
