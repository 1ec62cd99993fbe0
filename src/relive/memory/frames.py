"""Frame stacking while acting, the same as the memory does while sampling."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from relive.errors import OptionError
from relive.memory.checks import host, whole
from relive.types import Array, ArrayLike

__all__ = ["FrameStack"]


@final
class FrameStack:
    """The newest frames of every environment, stacked as a memory with ``stack={"obs": frames}`` stacks them.

    Call it with each observation that an action is chosen from, in order, and with where an episode has just begun: its
    first frame is then repeated, as the memory repeats it.

    Args:
        frames: How many, the newest last.
        lanes: Vectorised environments: observations ``[lanes, ...]`` come out as ``[lanes, frames, ...]``. None: one
            environment, ``[...]`` to ``[frames, ...]``.

    >>> stack = FrameStack(3)
    >>> [stack(t, t == 2).tolist() for t in range(4)]
    [[0, 0, 0], [0, 0, 1], [2, 2, 2], [2, 2, 3]]
    """

    def __init__(self, frames: int, lanes: int | None = None) -> None:
        self._frames = whole("frames", frames, 1, 1 << 16)
        self._lanes = None if lanes is None else whole("lanes", lanes, 1, 2**31)
        self._kept: Array | None = None

    def __call__(self, obs: ArrayLike, starts: ArrayLike = False) -> Array:
        """The stacks that end with these observations, in a new array.

        Args:
            starts: True where an episode starts, ``[lanes]`` or one for all. All start at the first call.
        """
        frame = host("obs", obs)
        frame = frame[None] if self._lanes is None else frame
        shape = (self._lanes or 1, *frame.shape[1:])
        if frame.shape != shape or (self._kept is not None and self._kept.shape[2:] != shape[1:]):
            expected = shape if self._kept is None else (shape[0], *self._kept.shape[2:])
            raise OptionError("obs", f"have shape {list(expected)}", list(frame.shape))
        begun = np.asarray(starts, bool)
        if begun.shape not in ((), (shape[0],)):
            raise OptionError("starts", f"be one flag or have shape {[shape[0]]}", list(begun.shape))
        begun = np.broadcast_to(begun, shape[:1])
        if self._kept is None:
            kept = np.repeat(frame[:, None], self._frames, axis=1)
        else:
            kept = np.concatenate([self._kept[:, 1:], frame[:, None]], axis=1, dtype=frame.dtype, casting="unsafe")
            kept[begun] = frame[begun][:, None]
        self._kept = kept
        return (kept[0] if self._lanes is None else kept).copy()

    @property
    def kept(self) -> Array | None:
        """The current stacks, ``[lanes, frames, ...]``, as a state to restore; None before the first call."""
        return None if self._kept is None else self._kept.copy()

    @kept.setter
    def kept(self, stacks: Any) -> None:
        if stacks is None:
            self._kept = None
            return
        given = host("kept", stacks)
        if given.shape[:2] != (self._lanes or 1, self._frames):
            raise OptionError("kept", f"have shape {[self._lanes or 1, self._frames, '...']}", list(given.shape))
        self._kept = given.copy()
