"""Parts of one's own, by name or as functions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

import relive as rl
from refusals import refused
from relive.learn.factories import GIVEN, custom_network, name_of, resolve


def make_something() -> None:
    """Something to import."""


def test_names_of_functions() -> None:
    assert resolve("encoder", "auto", {"auto": 3}) == 3
    assert resolve("encoder", "math:sqrt", {}) is math.sqrt
    assert resolve("encoder", make_something, {}) is make_something
    assert name_of(math.sqrt) == "math:sqrt"
    assert name_of(lambda: None) == ""
    assert name_of(nn.Linear) == "torch.nn.modules.linear:Linear"


@pytest.mark.parametrize(
    "value",
    [
        "automatic",
        ":x",
        3,
        "no_such_module:x",
        "math:no_such",
        "math:pi",
        GIVEN,
    ],
)
def test_names_that_cannot_be(value: Any) -> None:
    with refused(rl.errors.OptionError, "encoder"):
        resolve("encoder", value, {"auto": None})


@pytest.mark.parametrize(
    "make",
    [
        lambda i, o: nn.Linear(i, o + 1),
        lambda i, o: nn.Linear(i + 1, o),
        lambda i, o: nn.GRU(i, o),
        lambda i, o: torch.zeros(i, o),
    ],
)
def test_a_network_of_the_wrong_shape_is_refused(make: Any) -> None:
    with refused(rl.errors.OptionError, "network"):
        custom_network(make, 3, 2)


def test_trying_a_network_changes_nothing_in_it() -> None:
    frozen = nn.BatchNorm1d(3).eval()
    made = custom_network(lambda i, o: nn.Sequential(frozen, nn.BatchNorm1d(i), nn.Linear(i, o)), 3, 2)
    assert [part.training for part in made] == [False, True, True]  # type: ignore[attr-defined]
    assert made[1].num_batches_tracked == 0  # type: ignore[index]
