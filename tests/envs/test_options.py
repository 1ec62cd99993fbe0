"""Options of environments: their bounds, and the messages in full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relive.envs.options import positive, proportion
from relive.errors import OptionError


def test_numbers_that_may_be() -> None:
    assert positive("agents", np.int32(3)) == 3
    assert type(positive("agents", np.int32(3))) is int
    assert positive("agents", 0, least=0) == 0
    assert positive("agents", None, none=True) is None
    for value in (0, 1, 0.5, np.float32(0.25)):
        proportion("chance", value)


@pytest.mark.parametrize("value", [0, -1, 1.0, "3", True, None])
def test_whole_numbers_that_cannot_be(value: Any) -> None:
    with pytest.raises(OptionError) as refused:
        positive("agents", value)
    assert str(refused.value) == f"agents must be a whole number of at least 1, got {value!r}"


def test_none_is_said_to_be_possible() -> None:
    with pytest.raises(OptionError) as refused:
        positive("cycles", 1, least=2, none=True)
    assert str(refused.value) == "cycles must be a whole number of at least 2 or None, got 1"


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan"), True, "0.5"])
def test_proportions_that_cannot_be(value: Any) -> None:
    with pytest.raises(OptionError) as refused:
        proportion("chance", value)
    assert str(refused.value) == f"chance must be from 0 to 1, got {value!r}"
