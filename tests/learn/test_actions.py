"""Action heads: from an action space to what networks give, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import relive as rl
from refusals import refused
from relive.learn import action_head


def test_a_box_maps_by_a_straight_line() -> None:
    head = action_head(spaces.Box(np.array([0.0, -2.0], np.float32), np.array([1.0, 4.0], np.float32)))
    action = torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 0.5]])
    np.testing.assert_allclose(head.to_env(action), [[0, -2], [0.5, 1], [1, 2.5]])
    torch.testing.assert_close(head.normalize(torch.from_numpy(head.to_env(action))), action)
    outputs = torch.tensor([[0.0, math.atanh(0.5)]])
    torch.testing.assert_close(head.distribution(outputs).mode(), torch.tensor([[0.0, 0.5]]))


def test_boxes_of_any_shape() -> None:
    head = action_head(spaces.Box(-1, 1, (2, 3)))
    action = torch.rand(5, 4, 2, 3)
    assert head.normalize(action).shape == (5, 4, 6)
    assert head.to_env(head.normalize(action)).shape == (5, 4, 2, 3)


def test_whole_numbers_of_a_box() -> None:
    head = action_head(spaces.Box(0, 4, (2,), np.int64))
    action = head.to_env(torch.tensor([[[-1.0, 0.2], [0.9, 1.0]]]))
    assert action.dtype == np.int64
    assert action.tolist() == [[[0, 2], [4, 4]]]


@pytest.mark.parametrize(("count", "start", "dtype"), [(300, 0, "uint16"), (4, 253, "uint16"), (4, -2, "int8")])
def test_many_choices(count: int, start: int, dtype: str) -> None:
    head = action_head(spaces.Discrete(count, start=start))
    numbers = np.array([[start, start + count - 1]], dtype)
    action = head.normalize(torch.from_numpy(numbers))
    assert action.shape == (1, 2, count)
    np.testing.assert_array_equal(head.to_env(action), numbers)


def test_several_choices_at_once() -> None:
    head = action_head(spaces.MultiDiscrete([2, 3], start=[0, 10]))
    action = torch.tensor([[1, 12], [0, 10]])
    torch.testing.assert_close(head.normalize(action), torch.tensor([[0, 1, 0, 0, 1.0], [1, 0, 1, 0, 0.0]]))
    assert head.to_env(head.normalize(action)).tolist() == action.tolist()


def test_parts_of_one() -> None:
    head = action_head(spaces.Box(0, 1, (3,), np.float32), simplex_actions=True)
    action = head.distribution(torch.randn(2, 4, 3)).sample()
    np.testing.assert_array_equal(head.to_env(action), action.numpy())
    torch.testing.assert_close(head.normalize(action), action)


@pytest.mark.parametrize(
    ("space", "options", "about"),
    [
        (spaces.Box(-np.inf, 1, (2,)), {}, "action space"),
        (spaces.Box(1, 1, (2,)), {}, "action space"),
        (spaces.MultiBinary(3), {}, "action space"),
        (spaces.Discrete(2), {"temperature": 0.0}, "temperature"),
        (
            spaces.Box(-1, 1, (3,)),
            {"simplex_actions": True},
            "action space",
        ),
    ],
)
def test_spaces_that_cannot_be(space: Any, options: dict[str, Any], about: str) -> None:
    with refused(rl.errors.OptionError, about):
        action_head(space, **options)
