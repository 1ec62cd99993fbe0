"""The roles that PyMARL's code plays around its buffer: runners, run loop and QMIX learner; and the command."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from relive.compat.pymarl import EpisodeBatch, OneHot, ReplayBuffer
from waiting import PATIENCE

AGENTS, ACTIONS, OBS, STATE, LIMIT = 3, 5, 7, 6, 12


class Battle:
    """A game whose observations say which episode and step they are of, and which ends when it likes."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.number = seed * 1000

    def reset(self) -> None:
        self.number += 1
        self.t = 0
        self.length = int(self.random.integers(1, LIMIT + 1))

    def get_state(self) -> Any:
        return np.array([self.number, self.t, 0, 0, 0, 1], np.float32)

    def get_obs(self) -> Any:
        return [np.array([self.number, self.t, agent, 0, 0, 0, 1], np.float32) for agent in range(AGENTS)]

    def get_avail_actions(self) -> Any:
        return [[int((self.t + agent + action) % 3 > 0) for action in range(ACTIONS)] for agent in range(AGENTS)]

    def step(self, actions: Any) -> tuple[float, bool, dict[str, Any]]:
        self.t += 1
        ended = self.t == self.length
        info = {"episode_limit": True} if self.t == LIMIT else {}
        return float(sum(int(action) for action in actions)) + self.t / 100, ended, info


def pre_transition(envs: list[Battle]) -> dict[str, Any]:
    return {
        "state": [env.get_state() for env in envs],
        "avail_actions": [env.get_avail_actions() for env in envs],
        "obs": [env.get_obs() for env in envs],
    }


class Controller:
    """A shared recurrent-free network over observation, last action and agent id, as a PyMARL controller builds it."""

    def __init__(self, scheme: Any) -> None:
        width = scheme["obs"]["vshape"] + scheme["actions_onehot"]["vshape"][0] + AGENTS
        self.net = th.nn.Linear(width, ACTIONS)

    def forward(self, batch: Any, t: int) -> Any:
        size = batch.batch_size
        before = th.zeros_like(batch["actions_onehot"][:, t]) if t == 0 else batch["actions_onehot"][:, t - 1]
        ids = th.eye(AGENTS, device=batch.device).unsqueeze(0).expand(size, -1, -1)
        inputs = th.cat([batch["obs"][:, t] / 1e4, before, ids], dim=-1)
        return self.net(inputs.reshape(size * AGENTS, -1)).view(size, AGENTS, -1)

    def select_actions(self, batch: Any, t: int, bs: Any = slice(None)) -> Any:
        values = self.forward(batch, t).detach()
        values[batch["avail_actions"][:, t] == 0] = -1e9
        return values[bs].argmax(dim=2)


def train(mac: Controller, mixer: Any, optimiser: Any, batch: Any) -> float:
    """QMIX's update, with every way of reading that its learner has."""
    rewards = batch["reward"][:, :-1]
    actions = batch["actions"][:, :-1]
    terminated = batch["terminated"][:, :-1].float()
    mask = batch["filled"][:, :-1].float()
    mask[:, 1:] = mask[:, 1:] * (1 - terminated[:, :-1])
    avail = batch["avail_actions"]
    values = th.stack([mac.forward(batch, t) for t in range(batch.max_seq_length)], dim=1)
    chosen = th.gather(values[:, :-1], dim=3, index=actions).squeeze(3)
    following = values.detach().clone()
    following[avail == 0] = -9999999
    total = mixer(batch["state"][:, :-1] / 1e4).abs()
    q_tot = (chosen * total).sum(2, keepdim=True)
    q_next = (following.max(dim=3)[0][:, 1:] * mixer(batch["state"][:, 1:] / 1e4).abs().detach()).sum(2, keepdim=True)
    targets = rewards + 0.9 * (1 - terminated) * q_next
    error = (q_tot - targets.detach()) * mask
    loss = (error**2).sum() / mask.sum()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return float(loss.detach())


@pytest.mark.parametrize("workers", [1, 4])
def test_the_loop_of_pymarl_over_many_episodes(workers: int) -> None:
    scheme: dict[str, Any] = {
        "state": {"vshape": STATE},
        "obs": {"vshape": OBS, "group": "agents"},
        "actions": {"vshape": (1,), "group": "agents", "dtype": th.long},
        "avail_actions": {"vshape": (ACTIONS,), "group": "agents", "dtype": th.int},
        "reward": {"vshape": (1,)},
        "terminated": {"vshape": (1,), "dtype": th.uint8},
    }
    groups = {"agents": AGENTS}
    preprocess = {"actions": ("actions_onehot", [OneHot(out_dim=ACTIONS)])}
    buffer = ReplayBuffer(scheme, groups, 30, LIMIT + 1, preprocess=preprocess, device="cpu", seed=0)
    new_batch = partial(EpisodeBatch, scheme, groups, workers, LIMIT + 1, preprocess=preprocess, device="cpu")
    th.manual_seed(0)
    mac = Controller(buffer.scheme)
    mixer = th.nn.Linear(buffer.scheme["state"]["vshape"], AGENTS)
    optimiser = th.optim.Adam([*mac.net.parameters(), *mixer.parameters()], lr=1e-3)
    envs = [Battle(worker) for worker in range(workers)]
    told: dict[int, list[dict[str, Any]]] = {}
    losses = []
    played = 0
    while played < 320:
        batch = new_batch()
        for env in envs:
            env.reset()
            told[env.number] = []
        going = list(range(workers))
        batch.update(pre_transition(envs), ts=0)
        t = 0
        while going:
            actions = mac.select_actions(batch, t, bs=going if workers > 1 else slice(None))
            if workers > 1:
                batch.update({"actions": actions.unsqueeze(1)}, bs=going, ts=t, mark_filled=False)
            after: dict[str, list[Any]] = {"reward": [], "terminated": []}
            stepped, still = list(going), []
            for i, worker in enumerate(stepped):
                env = envs[worker]
                row = {"obs": env.get_obs(), "avail": env.get_avail_actions(), "actions": actions[i].tolist()}
                reward, ended, info = env.step(actions[i])
                after["reward"].append((reward,))
                after["terminated"].append((ended and not info.get("episode_limit", False),))
                told[env.number].append(row | {"reward": reward, "terminated": after["terminated"][-1][0]})
                if not ended:
                    still.append(worker)
            if workers > 1:
                batch.update(after, bs=stepped, ts=t, mark_filled=False)
                batch.update(
                    pre_transition([envs[worker] for worker in stepped]), bs=stepped, ts=t + 1, mark_filled=True
                )
            else:
                batch.update({"actions": actions, **after}, ts=t)
                batch.update(pre_transition(envs), ts=t + 1)
            t += 1
            going = still
        if workers == 1:
            batch.update({"actions": mac.select_actions(batch, t)}, ts=t)
        buffer.insert_episode_batch(batch)
        played += workers
        if not buffer.can_sample(8):
            continue
        sample = buffer.sample(8)
        longest = sample.max_t_filled()
        sample = sample[:, :longest]
        if sample.device != "cpu":
            sample.to("cpu")
        check(sample, told)
        losses.append(train(mac, mixer, optimiser, sample))
    assert buffer.episodes_in_buffer == 30
    assert len(losses) >= 70
    assert np.isfinite(losses).all()
    assert np.mean(losses[-20:]) < np.mean(losses[:20])


def check(sample: Any, told: dict[int, list[dict[str, Any]]]) -> None:
    """Every drawn episode is one that was played, whole and padded with zeros."""
    numbers = [int(number) for number in sample["state"][:, 0, 0]]
    assert len(set(numbers)) == len(numbers)
    assert max(len(told[number]) for number in numbers) + 1 == sample.max_seq_length
    for k, number in enumerate(numbers):
        steps = told[number]
        length = len(steps)
        assert sample["filled"][k, :, 0].tolist() == [1] * (length + 1) + [0] * (sample.max_seq_length - length - 1)
        for t, step in enumerate(steps):
            np.testing.assert_array_equal(sample["obs"][k, t], step["obs"])
            assert sample["avail_actions"][k, t].tolist() == step["avail"]
            assert sample["actions"][k, t, :, 0].tolist() == step["actions"]
            assert sample["actions_onehot"][k, t].argmax(dim=-1).tolist() == step["actions"]
            assert sample["reward"][k, t, 0] == np.float32(step["reward"])
            assert sample["terminated"][k, t, 0] == step["terminated"]
        assert sample["obs"][k, length, :, 1].tolist() == [length] * AGENTS
        for name in ("state", "obs", "avail_actions", "actions_onehot"):
            assert not sample[name][k, length + 1 :].any()


# ---- relive-with pymarl --------------------------------------------------------------------------------------------

THEIR_MAIN = """
import sys
from components.episode_buffer import EpisodeBatch, ReplayBuffer
from components import episode_buffer
import components.episode_buffer
assert components.episode_buffer.ReplayBuffer is ReplayBuffer
from components.transforms import OneHot
import helper
buffer = ReplayBuffer({"x": {"vshape": 1}}, {}, 3, 2)
batch = EpisodeBatch({"x": {"vshape": 1}}, {}, 1, 2)
batch.update({"x": [[2.0]]}, ts=0)
buffer.insert_episode_batch(batch)
print(type(buffer).__module__, episode_buffer is sys.modules["components.episode_buffer"], helper.same(ReplayBuffer))
print(__name__, OneHot, sys.argv[1:], buffer)
"""


def their_project(folder: Path) -> Path:
    source = folder / "src"
    (source / "components").mkdir(parents=True)
    (source / "components" / "__init__.py").write_text("")
    (source / "components" / "episode_buffer.py").write_text("raise RuntimeError('theirs was imported')\n")
    (source / "components" / "transforms.py").write_text("OneHot = 'their own'\n")
    helper = "from components.episode_buffer import ReplayBuffer\ndef same(other): return other is ReplayBuffer\n"
    (source / "helper.py").write_text(helper)
    (source / "main.py").write_text(THEIR_MAIN)
    return source


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "relive.compat.command", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE)


def test_the_command_runs_their_main_with_our_buffer(tmp_path: Path) -> None:
    script = str(their_project(tmp_path) / "main.py")
    done = command("pymarl", "--", script, "--config=qmix", "with", "t_max=5")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "relive-with: components.episode_buffer is that of relive.compat.pymarl\n"
    first, second = done.stdout.strip().splitlines()
    assert first == "relive.compat.pymarl.replay True True"
    assert second.startswith("__main__ their own ['--config=qmix', 'with', 't_max=5'] ReplayBuffer. 1/3 episodes.")


def test_the_command_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("")
    done = command("pymarl", "--", str(tmp_path / "main.py"))
    assert done.returncode == 2
    assert done.stderr.startswith("SCRIPT must lie beside the folder components, got none in ")
    done = command("pymarl", "--", str(tmp_path / "nowhere.py"))
    assert "SCRIPT must be a file, got " in done.stderr
    assert "got nothing after --" in command("pymarl").stderr
    done = command("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: relive-with pymarl -- ")
    assert command().returncode == 2
    assert "invalid choice: 'sb3'" in command("sb3", "--", "x.py").stderr
