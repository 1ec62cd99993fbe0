"""Matrix games."""

from __future__ import annotations

import numpy as np
import pytest

from refusals import refused
from relive import Memory, envs
from relive.errors import OptionError


@pytest.mark.parametrize(
    ("name", "options", "choice", "reward"),
    [
        ("climbing", {}, (0, 0), 11),
        ("climbing", {}, (0, 1), -30),
        ("climbing", {}, (1, 2), 6),
        ("climbing", {}, (2, 1), 0),
        ("penalty", {}, (0, 0), -100),
        ("penalty", {"penalty": -25}, (2, 2), -25),
        ("penalty", {}, (2, 0), 10),
        ("penalty", {}, (1, 1), 2),
    ],
)
def test_what_both_get(name: str, options: dict[str, float], choice: tuple[int, int], reward: float) -> None:
    env = envs.make(name, num_envs=2, **options)
    assert env.reset(seed=0)["obs"].shape == (2, 2, 1)
    step = env.step([choice, choice])
    assert step.row["reward"].tolist() == [reward, reward]
    assert step.terminated.all()


def test_played_again() -> None:
    env = envs.make("climbing", num_envs=1, max_episode_steps=3)
    memory = Memory(env.schema, capacity=20, lanes=1, seed=0)
    env.reset(seed=0)
    ends = []
    for t in range(6):
        if t == 4:
            other = envs.make("climbing", num_envs=1, max_episode_steps=3)
            other.restore(env.snapshot())  # type: ignore[attr-defined]
            env = other
        step = env.step([[0, 2]])
        memory.append(**step.row)
        ends.append(bool(step.terminated[0]))
    assert ends == [False, False, True] * 2
    assert len(memory.episodes.start) == 2


def test_refusals() -> None:
    with refused(OptionError, "penalty", got="5"):
        envs.make("penalty", penalty=5)
    env = envs.make("climbing")
    env.reset(seed=0)
    with refused(OptionError, "action", got="3"):
        env.step(np.array([[0, 3]]))
