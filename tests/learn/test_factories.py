"""Parts of one's own, by name or as functions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

import relive as rl
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
    ("value", "message"),
    [
        ("automatic", "encoder must be auto, or package.module:function, got 'automatic'"),
        (":x", "encoder must be auto, or package.module:function, got ':x'"),
        (3, "encoder must be auto, package.module:function, or a function, got 3"),
        ("no_such_module:x", "encoder must name something that can be imported, got 'no_such_module:x'. No module"),
        ("math:no_such", "encoder must name something that can be imported, got 'math:no_such'. module 'math' has"),
        ("math:pi", "encoder must name a function or a class, got 'math:pi'"),
        (
            GIVEN,
            "encoder must be given again, since it has no name to import it by, got '(given in Python)'. "
            "Pass it again: encoder=...",
        ),
    ],
)
def test_names_that_cannot_be(value: Any, message: str) -> None:
    with pytest.raises(rl.errors.OptionError) as caught:
        resolve("encoder", value, {"auto": None})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda i, o: nn.Linear(i, o + 1),
            "network must map [B, 3] to [B, 2], got [2, 3] for two rows. It was made for",
        ),
        (lambda i, o: nn.Linear(i + 1, o), "network must map [B, 3] to [B, 2], got RuntimeError: mat1 and mat2 shapes"),
        (lambda i, o: nn.GRU(i, o), "network must map [B, 3] to [B, 2], got tuple for two rows"),
        (lambda i, o: torch.zeros(i, o), "network must be a function that returns a torch module, got Tensor"),
    ],
)
def test_a_network_of_the_wrong_shape_is_refused(make: Any, message: str) -> None:
    with pytest.raises(rl.errors.OptionError) as refused:
        custom_network(make, 3, 2)
    assert str(refused.value).startswith(message)


def test_trying_a_network_changes_nothing_in_it() -> None:
    frozen = nn.BatchNorm1d(3).eval()
    made = custom_network(lambda i, o: nn.Sequential(frozen, nn.BatchNorm1d(i), nn.Linear(i, o)), 3, 2)
    assert [part.training for part in made] == [False, True, True]  # type: ignore[attr-defined]
    assert made[1].num_batches_tracked == 0  # type: ignore[index]
