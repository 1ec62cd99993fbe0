"""Values that no argument expects."""

from typing import Any

import numpy as np

HOSTILE: list[Any] = [
    None, float("nan"), float("inf"), np.zeros(0), np.zeros((2, 3, 4)), np.array(["x"]), 2**63, -1, "a\0b", [[[]]],
    [[1], [2, 3]], object(), {}, True, 1.5,
]  # fmt: skip
