"""Returns along packed episodes, on any device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from relive.learn.returns import n_step_return, td_lambda_return
from relive.learn.sequences import pack_sequences


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


def test_returns_on_paper() -> None:
    """An episode of three rewards 1, 2, 4 and values 8, 16, 32 after them, gamma 0.5; it is cut off, not terminated.

    The last return is 4 + 16 = 20. Two steps: 2 + 0.5 * 20 = 12, and 1 + 1 + 0.25 * 16 = 6. Lambda 0.5: the second is
    2 + 0.5 (8 + 10) = 11, the first 1 + 0.5 (4 + 5.5) = 5.75. Beside it an episode of one step that terminated: 7.
    """
    packed = pack_sequences(np.array([1, 3]))  # steps come by time: 1, 7, 2, 4
    reward, value = torch.tensor([1.0, 7.0, 2.0, 4.0]), torch.tensor([8.0, 99.0, 16.0, 32.0])
    ends = torch.tensor([False, True, False, False])
    n_step = n_step_return(packed, reward, value, ends, gamma=0.5, n=2)
    torch.testing.assert_close(n_step, torch.tensor([6.0, 7.0, 12.0, 20.0]))
    td_lambda = td_lambda_return(packed, reward, value, ends, gamma=0.5, lam=0.5)
    torch.testing.assert_close(td_lambda, torch.tensor([5.75, 7.0, 11.0, 20.0]))
