"""Options of environments: their bounds, and the messages in full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refusals import refused
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
    with refused(OptionError, "agents"):
        positive("agents", value)


def test_none_is_said_to_be_possible() -> None:
    with refused(OptionError, "cycles", got="1"):
        positive("cycles", 1, least=2, none=True)


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan"), True, "0.5"])
def test_proportions_that_cannot_be(value: Any) -> None:
    with refused(OptionError, "chance"):
        proportion("chance", value)
