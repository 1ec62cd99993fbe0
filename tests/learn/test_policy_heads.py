"""Heads of stochastic policies: from outputs to distributions, from distributions to actions, and back from rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from refusals import refused
from relive.errors import OptionError
from relive.learn.policy_heads import policy_head

BOX = spaces.Box(np.array([0.0, -2.0], np.float32), np.array([1.0, 4.0], np.float32))


def test_a_choice_is_counted_from_where_its_space_starts() -> None:
    head = policy_head(spaces.Discrete(3, start=5))
    assert (head.outputs, head.raw_width) == (3, 0)
    mask = torch.tensor([[True, True, False]])
    mode = head.distribution(torch.tensor([[0.0, 1.0, 9.0]]), mask).mode()
    assert mode.tolist() == [1]
    assert head.to_env(mode).tolist() == [6]
    assert head.stored({"action": torch.tensor([6, 7])}).tolist() == [1, 2]


def test_several_choices() -> None:
    head = policy_head(spaces.MultiDiscrete([2, 3], start=[4, -1]))
    assert head.outputs == 5
    mode = head.distribution(torch.tensor([[0.0, 1.0, 0.0, 0.0, 1.0]])).mode()
    assert mode.tolist() == [[1, 2]]
    assert head.to_env(mode).tolist() == [[5, 1]]
    assert head.stored({"action": torch.tensor([[5, 1]])}).tolist() == [[1, 2]]


def test_normal_numbers_are_clipped_to_the_box_and_kept_as_they_were() -> None:
    """-1 to 1 spans the box: 0.5 of [0, 1] is 0.75, and 3 beyond [-2, 4] is 4."""
    head = policy_head(BOX, log_std=-1.0, networks=2)
    assert (head.outputs, head.raw_width) == (2, 2)
    assert head.log_std.tolist() == [[-1.0, -1.0]] * 2
    outputs = torch.tensor([[[0.5, 3.0]]]).expand(2, 1, 2)  # two agents, one row
    distribution = head.distribution(outputs[:, 0])
    torch.testing.assert_close(distribution.mode(), outputs[:, 0])
    torch.testing.assert_close(head.env_action(outputs[:, 0]), torch.tensor([[0.75, 4.0]] * 2))
    np.testing.assert_array_equal(head.to_env(outputs[:, 0]), head.env_action(outputs[:, 0]).numpy())
    assert head.stored({"action": None, "raw_action": outputs}) is outputs


def test_squashed_numbers_stay_in_the_box() -> None:
    """Outputs are means, then logs of deviations between -5 and 2."""
    head = policy_head(BOX, squash=True)
    assert (head.outputs, head.raw_width) == (4, 0)
    distribution = head.distribution(torch.tensor([[0.0, 0.0, -90.0, 90.0]]))
    random = torch.Generator().manual_seed(0)
    drawn = torch.cat([distribution.sample(random) for _ in range(500)])
    assert drawn.abs().max() <= 1
    assert 0.8 * np.exp(-5) < drawn[:, 0].std() < 1.2 * np.exp(-5)  # tanh is straight near zero
    assert (drawn[:, 1].abs() > 0.9).double().mean() > 0.5  # a deviation of e^2
    action = head.env_action(drawn)
    torch.testing.assert_close(head.stored({"action": action}), drawn, atol=1e-5, rtol=0)
    np.testing.assert_array_equal(head.to_env(drawn), action.numpy())


@pytest.mark.parametrize("space", [spaces.MultiBinary(3), spaces.MultiDiscrete([[2, 3]])])
def test_spaces_that_cannot_be(space: Any) -> None:
    with refused(OptionError, "action space"):
        policy_head(space)
