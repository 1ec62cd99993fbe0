"""Actions of particle worlds, and those that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relive as rl
from relive import envs


def same(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert one.keys() == two.keys()
    for key, value in one.items():
        np.testing.assert_array_equal(value, two[key], err_msg=key)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64", "uint64", ">i4", ">i8"])
def test_whole_numbers_of_any_kind(dtype: str) -> None:
    env = envs.make("simple_spread", num_envs=2)
    env.reset(seed=0)
    step = env.step(np.full((2, 3), 4, dtype))
    np.testing.assert_array_equal(step.row["action"], np.full((2, 3), 4))
    assert (step.obs["obs"][:, :, 1] > 0).all()


def test_large_numbers_that_are_finite() -> None:
    env = envs.make("simple_spread", num_envs=600, continuous_actions=True)
    env.reset(seed=0)
    env.step(np.ones((600, 3, 5), np.float16))
    env.step(np.full((600, 3, 5), 3e38, np.float32))


def test_silence_costs_nothing() -> None:
    env = envs.make("simple_crypto", num_envs=2, continuous_actions=True)
    env.reset(seed=0)
    step = env.step({group.key("action"): np.zeros((2, 1, 4)) for group in env.groups})
    assert all((step.row[group.key("reward")] == 0).all() for group in env.groups)


@pytest.mark.parametrize(
    ("name", "action", "message"),
    [
        ("simple_spread", np.zeros((2, 2), int), "action must have shape [2, 3], got [2, 2]"),
        ("simple_spread", np.zeros((2, 3)), "action must be whole numbers, got float64"),
        ("simple_spread", np.full((2, 3), 5), "action must be from 0 to 4, got 5"),
        ("simple_spread", np.full((2, 3), -1, np.int8), "action must be from 0 to 4, got -1"),
        ("simple_spread", {"actions": 1}, "action must have action, got actions"),
        ("simple_spread", {"action/x": 1}, "action must have action, got action/x"),
        ("simple_spread", {"action": np.zeros((2, 3), int), "more": 1}, "action must have action, got action, more"),
        ("simple_spread", [[1, 2, 3], [1]], "action must be an array, got lists of different lengths"),
        ("simple_spread", np.full((2, 3), 9).astype(">i8"), "action must be from 0 to 4, got 9"),
        (
            "simple_tag",
            np.zeros((2, 4), int),
            "action must be a mapping with adversary/action, agent/action, got ndarray",
        ),
        ("simple_tag", {"agent/action": 0}, "action must have adversary/action, agent/action, got agent/action"),
    ],
)
def test_actions_that_cannot_be(name: str, action: Any, message: str) -> None:
    env: Any = envs.make(name, num_envs=2)
    with pytest.raises(rl.errors.OptionError, match=r"^reset must be called before step, got step$"):
        env.step(action)
    env.reset(seed=0)
    before = env.snapshot()
    with pytest.raises(rl.errors.OptionError) as caught:
        env.step(action)
    assert str(caught.value) == message
    same(env.snapshot(), before)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros((2, 3)), "action must have shape [2, 3, 5], got [2, 3]"),
        (np.full((2, 3, 5), np.nan), "action must be finite, got nan"),
        (np.zeros((2, 3, 5), bool), "action must be numbers, got bool"),
    ],
)
def test_numbers_that_cannot_be(action: Any, message: str) -> None:
    env = envs.make("simple_spread", num_envs=2, continuous_actions=True)
    env.reset(seed=0)
    with pytest.raises(rl.errors.OptionError) as caught:
        env.step(action)
    assert str(caught.value) == message
