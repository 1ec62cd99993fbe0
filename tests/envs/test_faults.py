"""Environments that break their promises are named: which one, which agent, which field, which step."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

import relive as rl
from refusals import refused
from relive.agents.maddpg import MADDPGConfig
from relive.envs import registry
from relive.envs.adapters import FromGymnasium, FromPettingZoo, SyncEnvs


class Faulty(ParallelEnv):
    """Two agents; what is wrong happens at the third step."""

    metadata = {"name": "faulty"}  # noqa: RUF012
    possible_agents = ["left", "right"]  # noqa: RUF012

    def __init__(self, fault: str = "", length: int | None = 5) -> None:
        self.fault, self.length, self.time = fault, length, 0

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-1, 1, (2,))

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.time = list(self.possible_agents), 0
        return self.seen(), {agent: {} for agent in self.agents}

    def seen(self) -> dict[str, Any]:
        return {agent: np.zeros(2, np.float32) for agent in self.possible_agents}

    def step(self, actions: Any) -> Any:
        self.time += 1
        seen, rewards = self.seen(), dict.fromkeys(self.possible_agents, 0.0)
        if self.time == 3:
            if self.fault == "obs":
                seen["right"][1] = np.nan
            elif self.fault == "reward":
                rewards["right"] = np.inf
            elif self.fault == "shape":
                seen["right"] = np.zeros(3, np.float32)
            elif self.fault == "raise":
                raise KeyError("a table of its own")
        over = self.time == self.length
        if over:
            self.agents = []
        ends = dict.fromkeys(self.possible_agents, over)
        return seen, rewards, dict.fromkeys(self.possible_agents, False), ends, {a: {} for a in self.possible_agents}


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(num_envs: int = 1, fault: str = "", length: int = 5) -> SyncEnvs:
        faults = [""] * (num_envs - 1) + [fault]
        return SyncEnvs([FromPettingZoo(Faulty(one, length or None)) for one in faults])

    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    rl.envs.register("faulty", make)
    return make


SMALL = MADDPGConfig(hidden=(8, 8), batch_size=16, learning_starts=50, capacity=1000)


FEW: dict[str, Any] = {"steps": 200, "num_envs": 4, "eval_every": 100, "eval_episodes": 2, "video": False}


@pytest.mark.parametrize(("fault", "field", "value"), [("obs", "obs", "nan"), ("reward", "reward", "inf")])
def test_what_is_not_finite_is_named(faulty: Any, fault: str, field: str, value: str, tmp_path: Path) -> None:
    number = {"obs": "1 of faulty after 3", "reward": "1 of faulty after 2"}[field]  # in the evaluation before step 0
    with refused(rl.errors.EnvError, f"{field} of right in environment {number} steps", got=value):
        rl.train(SMALL, "faulty", folder=tmp_path / "run", env_options={"fault": fault}, **FEW)


def test_a_wrong_shape_is_named(faulty: Any) -> None:
    env = faulty(2, "shape")
    env.reset(seed=0)
    for _ in range(2):
        env.step(np.zeros((2, 2), int))
    with refused(rl.errors.EnvError, "obs of right of faulty", got="[3]"):
        env.step(np.zeros((2, 2), int))


class Wrong(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(3, np.float32), {}


def test_a_wrong_shape_of_a_gymnasium_environment_is_named() -> None:
    with refused(rl.errors.EnvError, "obs of Wrong", got="[3]"):
        SyncEnvs([FromGymnasium(Wrong())]).reset(seed=0)


def test_an_exception_comes_with_its_own_traceback(faulty: Any) -> None:
    env = faulty(2, "raise")
    env.reset(seed=0)
    for _ in range(2):
        env.step(np.zeros((2, 2), int))
    with refused(rl.errors.EnvError, "step of environment 1 (faulty)") as caught:
        env.step(np.zeros((2, 2), int))
    said = caught.value.problem.got
    assert said.endswith("KeyError: 'a table of its own'")
    assert "raise KeyError" in said
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_evaluation_ends_where_episodes_do_not(faulty: Any, tmp_path: Path) -> None:
    few = {**FEW, "eval_max_steps": 30, "env_options": {"length": 0}}
    with pytest.warns(
        UserWarning, match=r"2 of 2 episodes of faulty did not end within 30 steps and count as they are"
    ):
        result = rl.train(SMALL, "faulty", folder=tmp_path / "run", **few)
    assert result.metrics["length"] == 30


def test_a_removed_tensorboard_ends_no_run(tmp_path: Path) -> None:
    import shutil

    removed = []

    def progress(steps: int, total: int, figures: Any) -> None:
        board = tmp_path / "run" / "tensorboard"
        if steps > 120 and board.exists() and not removed:
            shutil.rmtree(board)
            removed.append(steps)

    with pytest.warns(UserWarning, match="tensorboard is not written to any more"):
        result = rl.train(SMALL, "simple_spread", folder=tmp_path / "run", progress=progress, **{**FEW, "steps": 600})
    assert removed
    assert result.steps == 600


def test_environments_of_ones_own_and_vectors_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever steps, its exceptions come named, with the traceback that leads to the fault."""
    from relive.envs.adapters import FromGymnasiumVector

    made = gymnasium.make_vec("CartPole-v1", 2)
    vector = FromGymnasiumVector(made)
    vector.reset(seed=0)
    monkeypatch.setattr(made, "step", lambda action: 1 / 0)
    with refused(rl.errors.EnvError, "step of CartPole-v1"):
        vector.step(np.zeros((2, 1), int))

    class Own:
        def __init__(self, num_envs: int) -> None:
            self._env = rl.envs.make("simple_spread", num_envs=num_envs)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._env, name)

        def step(self, action: Any) -> Any:
            raise ZeroDivisionError("of its own")

    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    rl.envs.register("own", Own)
    with refused(rl.errors.EnvError, "step of simple_spread"):
        rl.train(SMALL, "own", folder=tmp_path / "run", **FEW)
    module = types.ModuleType("test_faults_world")
    module.Needs = Needs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "test_faults_world", module)
    with refused(rl.errors.EnvError, "making of pymarl:test_faults_world:Needs"):
        rl.envs.make("pymarl:test_faults_world:Needs")


class Needs:
    """PyMARL's methods, and an argument that nobody gives."""

    def __init__(self, map_name: str) -> None: ...

    reset = step = get_obs = get_state = get_avail_actions = get_env_info = close = lambda self: None
