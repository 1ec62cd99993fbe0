"""Actions of particle worlds, and those that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relive as rl
from refusals import refused
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
    ("name", "action", "about"),
    [
        ("simple_spread", np.zeros((2, 2), int), "action"),
        ("simple_spread", np.zeros((2, 3)), "action"),
        ("simple_spread", np.full((2, 3), 5), "action"),
        ("simple_spread", np.full((2, 3), -1, np.int8), "action"),
        ("simple_spread", {"actions": 1}, "action"),
        ("simple_spread", {"action/x": 1}, "action"),
        ("simple_spread", {"action": np.zeros((2, 3), int), "more": 1}, "action"),
        ("simple_spread", [[1, 2, 3], [1]], "action"),
        ("simple_spread", np.full((2, 3), 9).astype(">i8"), "action"),
        (
            "simple_tag",
            np.zeros((2, 4), int),
            "action",
        ),
        ("simple_tag", {"agent/action": 0}, "action"),
    ],
)
def test_actions_that_cannot_be(name: str, action: Any, about: str) -> None:
    env: Any = envs.make(name, num_envs=2)
    with refused(rl.errors.OptionError, "reset", got="step"):
        env.step(action)
    env.reset(seed=0)
    before = env.snapshot()
    with refused(rl.errors.OptionError, about):
        env.step(action)
    same(env.snapshot(), before)


@pytest.mark.parametrize(
    "action",
    [
        np.zeros((2, 3)),
        np.full((2, 3, 5), np.nan),
        np.zeros((2, 3, 5), bool),
    ],
)
def test_numbers_that_cannot_be(action: Any) -> None:
    env = envs.make("simple_spread", num_envs=2, continuous_actions=True)
    env.reset(seed=0)
    with refused(rl.errors.OptionError, "action"):
        env.step(action)
