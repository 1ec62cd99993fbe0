"""The agents and worlds of MADDPG notes, driven as they drive them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import relive as rl
from refusals import refused
from relive import envs
from relive.compat.maddpg import MADDPG, Actor, Buffer, Critic, make_env

RANDOM = np.random.default_rng(0)


def args_of(env: Any, folder: Path, **changes: Any) -> SimpleNamespace:
    shapes = {"obs_shape": [space.shape[0] for space in env.observation_space], "n_agents": env.n}
    shapes["action_shape"] = [space.n for space in env.action_space]
    learning = {"lr_actor": 1e-3, "lr_critic": 1e-2, "gamma": 0.95, "tau": 0.01, "high_action": 1.0}
    files = {"save_dir": str(folder), "scenario_name": "simple_spread", "save_rate": 10, "buffer_size": 50_000}
    return SimpleNamespace(**shapes | learning | files | changes)


def test_a_world_of_lists() -> None:
    env = make_env("simple_tag", seed=3)
    obs = env.reset()
    assert env.n == len(obs) == len(env.observation_space) == len(env.action_space) == 4
    assert [each.shape for each in obs] == [space.shape for space in env.observation_space] == [(16,)] * 3 + [(14,)]
    assert [space.n for space in env.action_space] == [5] * 4
    for _ in range(60):  # no time limit
        obs, rewards, done, info = env.step([RANDOM.random(5) for _ in range(4)])
    assert done == [False] * 4
    assert len(info["n"]) == 4
    assert all(isinstance(reward, float) for reward in rewards)
    env.seed(3)
    again = env.reset()
    env.seed(3)
    assert all((a == b).all() for a, b in zip(again, env.reset(), strict=True))
    assert env.render()[0].shape[2] == 3
    talkers = make_env("simple_reference")
    talkers.reset()
    assert [space.n for space in talkers.action_space] == [15, 15]
    talkers.step([np.eye(15)[7], 2])
    with refused(rl.errors.OptionError, "action_n[1]"):
        talkers.step([np.zeros(15), np.zeros(5)])
    with refused(rl.errors.OptionError, "action_n", got="1"):
        talkers.step([np.zeros(15)])


@pytest.mark.parametrize(
    ("action", "push"),
    [
        ([0, 1, 0, 0, 0], [1, 0]),
        ([0, 0, 2, 0, 0], [-2, 0]),
        ([0, 0, 0, 1, 0], [0, 1]),
        ([0, -1, 0, 0, 3], [-1, -3]),
        (1, [1, 0]),
    ],
)
def test_pushes_are_those_of_openais_worlds(action: Any, push: list[float]) -> None:
    """The second of five pushes to the right, the third to the left, then up and down, as far as they are told to."""
    env = make_env("simple", seed=0)
    before = env.reset()[0]
    after, *_ = env.step([action])
    accel, time = 5.0, 0.1
    np.testing.assert_allclose(after[0][:2] - before[:2], np.array(push) * accel * time, atol=1e-6)
    ours: Any = envs.make("simple", continuous_actions=True)
    assert ours.groups[0].action_space.high[0] == 1


class Agent:
    """As the notes' repositories write it."""

    def __init__(self, agent_id: int, args: Any) -> None:
        self.args, self.agent_id, self.policy = args, agent_id, MADDPG(args, agent_id)

    def select_action(self, o: Any, noise_rate: float, epsilon: float) -> Any:
        size = self.args.action_shape[self.agent_id]
        if RANDOM.uniform() < epsilon:
            return RANDOM.uniform(-self.args.high_action, self.args.high_action, size)
        with torch.no_grad():
            u = self.policy.actor_network(torch.tensor(o, dtype=torch.float32).unsqueeze(0))[0].numpy()
        return np.clip(u + noise_rate * RANDOM.normal(size=u.shape), -self.args.high_action, self.args.high_action)

    def learn(self, transitions: Any, other_agents: Any) -> None:
        self.policy.train(transitions, other_agents)


def play(env: Any, agents: list[Agent], buffer: Any, episodes: int, *, every: int, batch: int) -> list[float]:
    """The notes' loop; returns of episodes."""
    noise, epsilon, returns, step = 0.1, 0.1, [], 0
    for _ in range(episodes):
        s, total = env.reset(), 0.0
        for _ in range(25):
            u = [agent.select_action(s[i], noise, epsilon) for i, agent in enumerate(agents)]
            s_next, r, _, _ = env.step(u)
            buffer.store_episode(s, u, r, s_next)
            s, total, step = s_next, total + sum(r) / len(r), step + 1
            if buffer.current_size >= 1000 and step % every == 0:
                transitions = buffer.sample(batch)
                for agent in agents:
                    agent.learn(transitions, [other for other in agents if other is not agent])
            noise, epsilon = max(0.05, noise - 5e-7), max(0.05, epsilon - 5e-6)
        returns.append(total)
    return returns


def test_the_loop_of_the_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    env = make_env("simple_spread", seed=0)
    args = args_of(env, tmp_path)
    agents = [Agent(i, args) for i in range(env.n)]
    play(env, agents, Buffer(args, seed=0), 50, every=5, batch=64)
    folder = tmp_path / "simple_spread" / "agent_2"
    assert {path.name for path in folder.iterdir()} >= {"1_actor_params.pkl", "1_critic_params.pkl"}
    numbers = sorted(int(path.name.split("_")[0]) for path in folder.glob("*_actor_params.pkl"))
    assert len(numbers) > 3
    again = MADDPG(args, 2)
    assert f"{numbers[-1]}_actor_params.pkl" in capsys.readouterr().out
    saved = torch.load(folder / f"{numbers[-1]}_actor_params.pkl", weights_only=True)
    for name, value in again.actor_network.state_dict().items():
        assert (value == saved[name]).all()
        assert (again.actor_target_network.state_dict()[name] == value).all()
    again.load_model(str(tmp_path / "simple_spread" / "agent_1"))
    again.load_model(str(tmp_path))  # nothing there: nothing happens
    (folder / "99_actor_params.pkl").write_bytes(b"no")
    (folder / "99_critic_params.pkl").write_bytes(b"no")
    with refused(rl.errors.OptionError, "99_actor_params.pkl"):
        MADDPG(args, 2)


@pytest.mark.slow
def test_the_loop_of_the_notes_learns(tmp_path: Path) -> None:
    torch.manual_seed(1)
    env = make_env("simple_spread", seed=1)
    args = args_of(env, tmp_path, save_rate=10**9)
    agents = [Agent(i, args) for i in range(env.n)]
    returns = play(env, agents, Buffer(args, seed=0), 2000, every=5, batch=256)
    first, last = np.mean(returns[:40]), np.mean(returns[-200:])
    print(f"returns of an agent: {first:.1f} in the first 40 episodes, {last:.1f} in the last 200")
    assert last > first + 5


def test_a_step_of_learning_is_the_formulas(tmp_path: Path) -> None:
    torch.manual_seed(0)
    learning = {"high_action": 2.0, "lr_actor": 0.1, "lr_critic": 0.1, "gamma": 0.9, "tau": 0.3}
    files = {"save_dir": str(tmp_path), "scenario_name": "x", "save_rate": 10**9}
    args = SimpleNamespace(n_agents=2, obs_shape=[3, 2], action_shape=[2, 1], **learning, **files)
    mine, other = MADDPG(args, 1), MADDPG(args, 0)
    random = np.random.default_rng(0)
    batch: dict[str, Any] = {"done": random.random((6, 2)) < 0.5}
    for i in range(2):
        batch |= {f"o_{i}": random.normal(size=(6, args.obs_shape[i])), f"r_{i}": random.normal(size=6)}
        batch |= {f"o_next_{i}": random.normal(size=(6, args.obs_shape[i]))}
        batch |= {f"u_{i}": random.normal(size=(6, args.action_shape[i]))}
    kept = {key: value.copy() for key, value in batch.items()}
    actor, critic = Actor(args, 1), Critic(args)
    actor.load_state_dict(mine.actor_network.state_dict())
    critic.load_state_dict(mine.critic_network.state_dict())
    steps = torch.optim.Adam(actor.parameters(), 0.1), torch.optim.Adam(critic.parameters(), 0.1)
    t = {key: torch.tensor(value, dtype=torch.float32) for key, value in batch.items()}
    with torch.no_grad():
        following = [other.actor_network(t["o_next_0"]), actor(t["o_next_1"])]
        value = critic([t["o_next_0"], t["o_next_1"]], following)[:, 0]
        target = t["r_1"] + 0.9 * (1 - t["done"][:, 1]) * value
    (critic([t["o_0"], t["o_1"]], [t["u_0"], t["u_1"]])[:, 0] - target).pow(2).mean().backward()
    steps[1].step()
    (-critic([t["o_0"], t["o_1"]], [t["u_0"], actor(t["o_1"])]).mean()).backward()
    steps[0].step()
    before = {name: value.clone() for name, value in mine.actor_target_network.state_dict().items()}
    mine.train(batch, [SimpleNamespace(policy=other)])
    assert all((batch[key] == kept[key]).all() for key in kept)
    for ours, plain in ((mine.actor_network, actor), (mine.critic_network, critic)):
        for name, value in plain.state_dict().items():
            torch.testing.assert_close(ours.state_dict()[name], value, rtol=1e-5, atol=1e-6)
    for name, value in mine.actor_target_network.state_dict().items():
        torch.testing.assert_close(value, 0.7 * before[name] + 0.3 * actor.state_dict()[name], rtol=1e-5, atol=1e-6)
