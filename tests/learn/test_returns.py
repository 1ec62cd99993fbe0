"""Returns along packed episodes, on any device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from recollect.learn.returns import n_step_return, td_lambda_return
from recollect.learn.sequences import pack_sequences


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_returns_are_the_same_on_any_device(own: bool, gamma: float) -> None:
    """What other devices compute, beside the core's scans."""
    random = torch.Generator().manual_seed(0)
    packed = pack_sequences(np.array([3, 1, 5, 4]))
    shape = (13, 2) if own else (13,)
    reward, value = torch.randn(shape, generator=random), torch.randn(shape, generator=random)
    ends = torch.rand(shape, generator=random) < 0.2
    native = [
        td_lambda_return(packed, reward, value, ends, gamma=gamma, lam=0.7),
        *(n_step_return(packed, reward, value, ends, gamma=gamma, n=n) for n in (1, 2, 3, 9)),
    ]

    class Device(str):
        type = "elsewhere"

    class Elsewhere(torch.Tensor):
        @property
        def device(self) -> Any:
            return Device("cpu")

    there = [each.as_subclass(Elsewhere) for each in (reward, value, ends)]
    others = [
        td_lambda_return(packed, *there, gamma=gamma, lam=0.7),
        *(n_step_return(packed, *there, gamma=gamma, n=n) for n in (1, 2, 3, 9)),
    ]
    for one, other in zip(native, others, strict=True):
        torch.testing.assert_close(one, other.as_subclass(torch.Tensor), rtol=1e-5, atol=1e-5)
