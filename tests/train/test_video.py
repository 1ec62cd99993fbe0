"""Videos: from what is there before the first step to how an episode ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from recollect import envs
from recollect.train.evaluate import evaluate, record_video


class Chance:
    """Agents that do anything they may, the same in every episode."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def actor(self, num_envs: int, *, explore: bool, seed: int = 0) -> Chance:
        assert not explore
        self.num_envs, self.random = num_envs, np.random.default_rng(0)
        return self

    def act(self, seen: Any, _step: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
        done = {}
        for group in self.env.groups:
            assert isinstance(group.action_space, spaces.Discrete)
            value = self.random.random((self.num_envs, len(group), int(group.action_space.n)))
            value *= seen[group.key("avail_actions")] if group.avail else 1
            done[group.key("action")] = value.argmax(axis=2)
        return done, {}

    def reset(self, _mask: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("marines_2v2", {}),
        ("simple_tag", {"max_cycles": 7}),
        ("gymnasium:CartPole-v1", {}),
        ("simple", {"max_cycles": 1}),
    ],
)
def test_videos_show_the_end(name: str, options: dict[str, Any]) -> None:
    env = envs.make(name, **options)
    learner: Any = Chance(env)
    length = evaluate(learner, env, 3, 1000)["length"]
    pictures = record_video(learner, envs.make_drawable(name, **options), 3)
    assert len(pictures) == length + 1
    if name == "marines_2v2":
        assert length < (env.max_episode_steps or 0), "it is won or lost"
    assert not np.array_equal(pictures[-1], pictures[0])


def test_whoever_asks_is_told_of_ends_while_they_are_there() -> None:
    env: Any = envs.make("marines_3v3", num_envs=5)
    learner = Chance(env)
    actor, seen = learner.actor(5, explore=False), env.reset(seed=0)
    told: list[int] = []

    def look(index: int) -> None:
        alive = env.battle.hit_points[:, index] > 0
        assert not (alive[:3].any() and alive[3:].any()) or env.time[index] == env.max_episode_steps
        told.append(index)

    env.at_end = look
    ends: list[int] = []
    for _ in range(80):
        step = env.step(actor.act(seen)[0])
        ends += np.flatnonzero(step.ended).tolist()
        seen = step.obs
    assert ends
    assert told == ends
