"""Environments by name, films of them, and the command that lists them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import relive as rl
from refusals import refused
from relive import envs
from relive.envs import particle, registry


@pytest.mark.parametrize(
    ("name", "options", "about"),
    [
        (
            "simple_spraed",
            {},
            "environment",
        ),
        ("cartpole", {}, "environment"),
        ("marines", {}, "environment"),
        ("zzz", {}, "environment"),
        (
            "simple",
            {"max_cycle": 3},
            "option of simple",
        ),
        (7, {}, "environment"),
        ("gymnasium:CartPole-v1", {"num_envs": 1.5}, "num_envs"),
        ("marines_4v4", {"N": 3}, "option of marines_4v4"),
    ],
)
def test_wrong_names(name: str, options: dict[str, Any], about: str) -> None:
    with refused(rl.errors.OptionError, about):
        envs.make(name, **options)


def test_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))

    def build(num_envs: int = 1, size: int = 2) -> envs.Env:
        return particle.World(particle.simple_spread(size), num_envs)

    envs.register("mine", build, "Mine.")
    assert envs.make("mine", num_envs=3, size=4).groups[0].agents[-1] == "agent_3"
    assert [entry.name for entry in envs.entries()][-1] == "mine"
    with refused(rl.errors.OptionError, "option of mine", got="'sizes'"):
        envs.make("mine", sizes=3)
    with refused(rl.errors.OptionError, "name", got="'mine'"):
        envs.register("mine", particle.World)
    with refused(rl.errors.OptionError, "name", got="'a:b'"):
        envs.register("a:b", build)


@pytest.mark.parametrize("entry", envs.entries(), ids=lambda entry: entry.name)
def test_every_one_is_drawn(entry: envs.Entry) -> None:
    env = entry.make(num_envs=2)
    obs = env.reset(seed=1)
    random, action = np.random.default_rng(0), {}
    for group in env.groups:  # from here on the two differ, wherever they began alike
        allowed = obs.get(group.key("avail_actions"), np.ones((2, len(group), group.action_space.n), bool))
        chance = random.random(allowed.shape) * allowed
        action[group.key("action")] = chance.argmax(axis=2)
    env.step(action)
    picture = env.render(1)
    assert picture.dtype == np.uint8
    assert picture.ndim == 3
    assert picture.shape[2] == 3
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20
    assert (picture != env.render(0)).any()


def test_bodies_far_outside_are_in_the_picture() -> None:
    env: Any = envs.make("simple")
    env.reset(seed=0)
    env.pos[0, :, 0] = (30.0, -20.0)
    env.look()
    assert env.render().shape == (360, 360, 3)


def test_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "relive", "envs", "simple"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stdout.startswith("simple  One agent goes to one landmark")
    assert done.stderr == ""
