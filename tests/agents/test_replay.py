"""Replay memories of off-policy algorithms: room, windows, frames and priorities by their settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import relive as rl
from relive.agents.replay import replay_memory, sampler_of

SCHEMA = rl.Schema(obs=rl.Field((2,)), action=rl.Field((), "uint8"))
DEFAULTS = {"capacity": 1000, "n_step": 3, "gamma": 0.9, "per_alpha": 0.0}


def settings(**changed: Any) -> Any:
    return SimpleNamespace(**{**DEFAULTS, **changed})


def test_rows_are_rounded_to_whole_lanes_and_are_never_too_few() -> None:
    def capacity(lanes: int, **changed: Any) -> int:
        return replay_memory(settings(**changed), SCHEMA, lanes=lanes, seed=0, storage=None).capacity

    assert capacity(3) == 999
    assert capacity(2, capacity=1) == 2 * (2 * (3 + 1) + 2)  # two windows of n steps and what follows them
    assert capacity(1, capacity=1, frame_stack=4) == 2 * (3 + 4) + 2


def test_windows_and_frames_are_the_settings() -> None:
    memory = replay_memory(settings(frame_stack=4), SCHEMA, lanes=1, seed=0, storage=None)
    assert memory.window == rl.NStep(3, gamma=0.9)
    assert dict(memory.stack) == {"obs": 4}
    assert not replay_memory(settings(), SCHEMA, lanes=1, seed=0, storage=None).stack


@pytest.mark.parametrize(
    ("changed", "sampler"),
    [
        ({}, rl.Uniform()),
        ({"per_beta": 0.4, "per_beta_steps": 100, "update_every": 4}, rl.Uniform()),
        ({"per_alpha": 0.6}, rl.Prioritized(alpha=0.6)),
        ({"per_alpha": 0.6, "per_beta": 0.4, "per_beta_steps": 0, "update_every": 4}, rl.Prioritized(0.6, beta=0.4)),
        (
            {"per_alpha": 0.6, "per_beta": 0.4, "per_beta_steps": 100, "update_every": 4},
            rl.Prioritized(0.6, beta=rl.LinearSchedule(0.4, 1.0, steps=25)),  # a batch every four steps
        ),
    ],
)
def test_samplers(changed: dict[str, Any], sampler: Any) -> None:
    assert sampler_of(settings(**changed)) == sampler
