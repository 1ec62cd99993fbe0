"""Evaluation, and pictures of an episode."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from relive import envs
from relive.agents.dqn import DQNConfig
from relive.agents.maddpg import MADDPGConfig
from relive.envs.video import captioned
from relive.training.environments import make_drawable_env
from relive.training.evaluate import evaluate, record_video


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


SMALL = MADDPGConfig(learning_starts=200, batch_size=32, update_every=40, capacity=2000, hidden=(8,))


def test_what_environments_report_hides_nothing() -> None:
    from relive.envs.particle import World, simple
    from relive.training.evaluate import evaluate

    class Reporting:
        def __init__(self) -> None:
            self._env = World(simple(), 3, max_cycles=4)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._env, name)

        def step(self, action: Any) -> Any:
            step = self._env.step(action)
            self.report_names = ("won", "return")
            told = {"step": np.full(3, 7.0), "return": np.full(3, 99.0), "won": np.array([1.0, np.nan, 0.0])}
            return step._replace(info={**told, "never": np.full(3, np.nan)})

    learner = SMALL.learner(envs.make("simple"))
    found = evaluate(learner, Reporting(), 0, 1000)  # type: ignore[arg-type]
    assert found["return"] < 0
    assert found["length"] == 4
    assert (found["info/step"], found["info/return"], found["won"]) == (7, 99, 0.5)
    assert "never" not in found


def test_pictures_say_how_far_they_are() -> None:
    learner = SMALL.learner(envs.make("simple_tag"))
    pictures = record_video(learner, envs.make_drawable("simple_tag"), seed=0).frames
    plain = envs.make("simple_tag")
    plain.reset(seed=0)
    height = plain.render(0).shape[0]
    assert all(picture.shape[0] > height for picture in pictures)
    strips = [picture[height:] for picture in pictures]
    assert all((one != two).any() for one, two in itertools.pairwise(strips))
    assert captioned(np.zeros((20, 300, 3), np.uint8), "step 1").shape == (40, 300, 3)


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
    pictures = record_video(learner, envs.make_drawable(name, **options), 3).frames
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


@pytest.mark.parametrize(("name", "fps"), [("CartPole-v1", 50.0), ("bitflip", 10.0)])
def test_videos_have_the_speed_of_the_environment(name: str, fps: float) -> None:
    config = DQNConfig(hidden=(8,))
    env = make_drawable_env(config, name, {})
    assert record_video(config.learner(env), env, 0, longest=3).fps == fps
