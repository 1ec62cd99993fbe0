"""Frame stacks while acting are those that the memory gives while learning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relive as rl
from refusals import refused
from relive.errors import OptionError


@pytest.mark.parametrize("lanes", [None, 3])
@pytest.mark.parametrize("frames", [1, 2, 4])
def test_what_is_acted_on_is_what_is_learned_from(lanes: int | None, frames: int) -> None:
    """Random ends of both kinds; every row's stack is the one that was made when it was appended."""
    source = np.random.default_rng(frames)
    count = lanes or 1
    schema = rl.Schema(obs=rl.Field((2, 2), "uint8"), at=rl.Field((), "int64"))
    memory = rl.Memory(schema, 300 * count, lanes, stack={"obs": frames} if frames > 1 else None, seed=0)
    stack = rl.FrameStack(frames, lanes)
    acted: list[Any] = []
    starts = np.ones(count, bool)
    for t in range(200):
        obs = source.integers(0, 256, (count, 2, 2), np.uint8)
        acted.append(stack(obs if lanes else obs[0], starts if lanes else starts[0]).reshape(count, frames, 2, 2))
        terminated, truncated = source.random(count) < 0.1, source.random(count) < 0.1
        step: dict[str, Any] = {
            "obs": obs,
            "at": np.full(count, t),
            "reward": np.zeros(count),
            "terminated": terminated,
            "truncated": truncated,
            "final_obs": source.integers(0, 256, (count, 2, 2), np.uint8),
        }
        memory.append(**(step if lanes else {key: value[0] for key, value in step.items()}))
        starts = terminated | truncated
    for batch in memory.epoch(64):
        expected = np.stack([acted[t][lane] for t, lane in zip(batch["at"], batch.lanes, strict=True)])
        np.testing.assert_array_equal(batch.obs.reshape(expected.shape), expected)


def test_stacks_are_ones_own() -> None:
    stack = rl.FrameStack(2, 1)
    one = stack(np.zeros((1, 3)))
    one[:] = 7
    assert stack(np.ones((1, 3))).tolist() == [[[0, 0, 0], [1, 1, 1]]]


@pytest.mark.parametrize(
    ("call", "about"),
    [
        (lambda: rl.FrameStack(0), "frames"),
        (lambda: rl.FrameStack(2, 2)(np.zeros((3, 2))), "obs"),
        (
            lambda: rl.FrameStack(2, 2)(np.zeros((2, 2)), [True] * 3),
            "starts",
        ),
    ],
)
def test_what_is_refused(call: Any, about: str) -> None:
    with refused(OptionError, about):
        call()


def test_frames_of_another_shape_are_refused() -> None:
    stack = rl.FrameStack(2)
    stack(np.zeros(2))
    with refused(OptionError, "obs"):
        stack(np.zeros(3))
