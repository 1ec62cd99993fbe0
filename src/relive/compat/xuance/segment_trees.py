"""Segment trees by XuanCe's names, and a prioritised buffer's priorities seen as such."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, final

import numpy as np

from relive.errors import OptionError
from relive.memory.checks import whole

__all__ = ["MinSegmentTree", "PriorityTree", "SegmentTree", "SumSegmentTree"]

_MOST = 2**40


class SegmentTree:
    """Values of which any stretch can be combined in logarithmic time.

    Args:
        capacity: A power of two.
        operation: Combines two values, such as ``min``.
        neutral_element: What changes nothing when combined.
    """

    def __init__(self, capacity: int, operation: Callable[[Any, Any], Any], neutral_element: Any) -> None:
        capacity = whole("capacity", capacity, 1, _MOST)
        if capacity & (capacity - 1):
            raise OptionError("capacity", "be a power of two", capacity)
        self._capacity = capacity
        self._operation, self._neutral = operation, neutral_element
        self._value = [neutral_element] * (2 * capacity)

    def reduce(self, start: int = 0, end: int | None = None) -> Any:
        """The values from ``start`` up to, not including, ``end`` combined; a negative end counts from the back."""
        low = start + self._capacity
        high = (self._capacity if end is None else end % self._capacity if end < 0 else end) + self._capacity
        left, right = self._neutral, self._neutral
        while low < high:
            if low & 1:
                left, low = self._operation(left, self._value[low]), low + 1
            if high & 1:
                high -= 1
                right = self._operation(self._value[high], right)
            low, high = low // 2, high // 2
        return self._operation(left, right)

    def __setitem__(self, idx: int, val: Any) -> None:
        node = self._leaf(idx)
        self._value[node] = val
        while node > 1:
            node //= 2
            self._value[node] = self._operation(self._value[2 * node], self._value[2 * node + 1])

    def __getitem__(self, idx: int) -> Any:
        return self._value[self._leaf(idx)]

    def _leaf(self, idx: int) -> int:
        if not 0 <= idx < self._capacity:
            raise OptionError("idx", f"be from 0 to {self._capacity - 1}", idx)
        return self._capacity + int(idx)


class SumSegmentTree(SegmentTree):
    """Sums, and places found by them."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, operator.add, 0.0)

    def sum(self, start: int = 0, end: int | None = None) -> Any:
        """The sum of the values from ``start`` up to, not including, ``end``."""
        return self.reduce(start, end)

    def find_prefixsum_idx(self, prefixsum: float) -> int:
        """The first place up to which, itself included, the values sum up to more than ``prefixsum``."""
        if not 0 <= prefixsum <= self.sum() + 1e-5:
            raise OptionError("prefixsum", f"be from 0 to {self.sum()}", prefixsum)
        node = 1
        while node < self._capacity:
            node *= 2
            if self._value[node] <= prefixsum:
                prefixsum, node = prefixsum - self._value[node], node + 1
        return node - self._capacity


class MinSegmentTree(SegmentTree):
    """Minima."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, min, float("inf"))

    def min(self, start: int = 0, end: int | None = None) -> Any:
        """The least of the values from ``start`` up to, not including, ``end``."""
        return self.reduce(start, end)


@final
class PriorityTree:
    """The priorities of one environment's steps, to the power of alpha, with the methods that the two trees have."""

    def __init__(self, read: Callable[[], np.ndarray[Any, Any]], write: Callable[[int, float], None]) -> None:
        self._read, self._write = read, write

    def __getitem__(self, idx: int) -> float:
        return float(self._read()[idx])

    def __setitem__(self, idx: int, val: float) -> None:
        self._write(idx, val)

    def sum(self, start: int = 0, end: int | None = None) -> float:
        """The sum of the priorities from ``start`` up to, not including, ``end``."""
        return float(self._read()[start:end].sum())

    def min(self, start: int = 0, end: int | None = None) -> float:
        """The least of the priorities from ``start`` up to, not including, ``end``."""
        return float(self._read()[start:end].min(initial=np.inf))

    def find_prefixsum_idx(self, prefixsum: float) -> int:
        """The first step up to which, itself included, the priorities sum up to more than ``prefixsum``."""
        sums = np.cumsum(self._read())
        return min(int(np.searchsorted(sums, prefixsum, side="right")), len(sums) - 1)
