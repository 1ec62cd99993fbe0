"""Networks, encoders and losses of one's own, in Python and by name, through a whole run and after it."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

import relive as rl
from refusals import refused
from relive import cli, training
from relive.agents.maddpg import MADDPGConfig
from relive.agents.qmix import QMIXConfig
from relive.learn import kernels
from relive.training.checkpoint import load_state
from relive.training.replay import load_run

EXAMPLES = Path(__file__).parents[2] / "examples"


FEW: dict[str, Any] = {"num_envs": 4, "eval_every": 500, "eval_episodes": 3, "video": False}


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The examples, importable and imported afresh."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    for name in ("own_encoder", "own_attention", "own_loss"):
        sys.modules.pop(name, None)
    gym.registry.pop("Catch-v0", None)


MIXED = QMIXConfig(learning_starts=8, batch_size=8, buffer_size=40, hidden=8, mixing_units=4, hypernet_units=4)


SMALL = MADDPGConfig(learning_starts=200, batch_size=16, update_every=20, capacity=2000, hidden=(8,))


def flags(settings: dict[str, Any]) -> list[str]:
    return [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]


@pytest.mark.parametrize(
    ("algorithm", "env", "setting", "name"),
    [
        ("iql", "gymnasium:own_encoder:Catch-v0", "encoder", "own_encoder:CNN"),
        ("qmix", "marines_3v3", "network", "own_attention:Attention"),
        ("maddpg", "simple_spread", "td_loss", "own_loss:huber"),
    ],
)
def test_examples_train_and_go_on_by_name(
    algorithm: str, env: str, setting: str, name: str, examples: Any, tmp_path: Path, capsys: Any
) -> None:
    folder = str(tmp_path / "run")
    own = {"learning_starts": 200} if algorithm == "maddpg" else {"learning_starts": 4, "batch_size": 4}
    some = {"steps": 600, "num_envs": 4, "eval_every": 300, "eval_episodes": 3, setting: name, **own}
    assert cli.main(["train", algorithm, env, "--folder", folder, "--no-video", *flags(some)]) == 0
    assert f"next: relive eval {folder} --episodes 1000 --trust" in capsys.readouterr().out.replace("\n", "")
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())[algorithm][setting] == name
    assert cli.main(["train", "--resume", folder, "--steps", "800"]) == 2, "a file that names code needs consent"
    assert f"{setting} in " in capsys.readouterr().err or algorithm == "iql"
    assert cli.main(["train", "--resume", folder, "--steps", "800", "--trust"]) == 0
    assert cli.main(["eval", folder, "--episodes", "3"]) == 2
    assert cli.main(["eval", folder, "--episodes", "3", "--trust"]) == 0
    again = ["train", "--config", str(tmp_path / "run" / "config.toml"), "--folder", str(tmp_path / "again")]
    if ":" not in env:
        assert cli.main([*again, *flags({setting: name})]) == 0, "the same name typed is consent"


@pytest.mark.slow
def test_an_image_environment_is_learned(examples: Any, tmp_path: Path) -> None:
    from own_encoder import CNN

    config = QMIXConfig(mixer="none", encoder=CNN, recurrent=False, epsilon_steps=3000, gamma=0.9, hidden=32)
    few = {**FEW, "num_envs": 16, "eval_episodes": 200}
    env = "gymnasium:Catch-v0"
    result = rl.train(config, env, folder=tmp_path / "run", steps=16_000, **few)
    assert result.metrics["return"] > 0.85  # by chance 0.28
    names = [name for name in load_state(tmp_path / "run")[0] if "encoders" in name]
    assert "networks.online.agents.encoders.networks.0.module.0.weight" in names


def test_what_has_no_name_is_given_again(tmp_path: Path) -> None:
    def make(space: Any) -> nn.Module:
        return nn.Sequential(nn.Linear(space.shape[0], 6), nn.Tanh())

    for algorithm in (SMALL, MIXED):
        folder = tmp_path / algorithm.name
        rl.train(algorithm, "simple_spread", folder=folder, encoder=make, steps=400, **FEW)
        assert 'encoder = "(given in Python)"' in (folder / "config.toml").read_text()
        with refused(rl.errors.OptionError, "encoder"):
            rl.resume(folder, steps=600)
        assert rl.resume(folder, steps=600, encoder=make).steps == 600
        assert load_run(folder, encoder=make).evaluate(2)["length"] == 25
    with refused(rl.errors.OptionError, "setting", got="'coder'"):
        rl.train(SMALL, "simple_spread", folder=tmp_path / "x", coder=make)


class Recurrent(nn.Module):
    """A plain torch GRU over packed sequences."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.state_size = 6
        self.cell, self.head = nn.GRUCell(inputs, 6), nn.Linear(6, outputs)

    def forward(self, x: Any, batch_sizes: Any, state: Any) -> Any:
        outputs, ended = [], []
        for step in torch.split(x, list(batch_sizes)):
            ended.append(state[len(step) :])
            state = self.cell(step, state[: len(step)])
            outputs.append(self.head(state))
        return torch.cat(outputs), torch.cat([state, *ended[::-1]])


@pytest.mark.parametrize("shared", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("env", ["marines_3v3", pytest.param("simple_speaker_listener", marks=pytest.mark.slow)])
def test_recurrent_networks_of_ones_own(env: str, shared: bool, tmp_path: Path) -> None:
    config = QMIXConfig(
        learning_starts=8, batch_size=8, buffer_size=40, network=Recurrent, parameter_sharing=shared, hypernet_units=4
    )
    result = rl.train(config, env, folder=tmp_path / "run", steps=800, **FEW)
    assert np.isfinite(result.metrics["train/loss"])
    again = rl.train(config, env, folder=tmp_path / "again", steps=400, **FEW)
    assert again.steps == 400
    rl.resume(tmp_path / "again", steps=800, trust=True)
    one, two = (load_state(tmp_path / name)[0] for name in ("run", "again"))
    assert all(torch.equal(value, two[key]) for key, value in one.items())


class Mixed(gym.Env):
    """Observations of all kinds at once."""

    observation_space = spaces.Dict(
        at=spaces.Box(-1, 1, (3,)),
        pair=spaces.Tuple([spaces.Discrete(4), spaces.Box(0, 255, (9, 9, 3), np.uint8)]),
    )
    action_space = spaces.Discrete(3)

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        return self.observation_space.sample(), float(action), self.time == 5, False, {}


@pytest.mark.parametrize("algorithm", [SMALL, MIXED])
def test_nested_observations(algorithm: Any, tmp_path: Path) -> None:
    gym.register("Mixed-v0", Mixed)
    try:
        result = rl.train(algorithm, "gymnasium:Mixed-v0", folder=tmp_path / "run", steps=400, **FEW)
        assert np.isfinite(result.metrics["return"])
        assert load_run(tmp_path / "run").evaluate(2)["length"] == 5
    finally:
        gym.registry.pop("Mixed-v0")


def test_a_network_of_ones_own_in_maddpg(tmp_path: Path) -> None:
    def make(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(inputs, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, outputs))

    for sharing in ((), ("all",)):
        config = MADDPGConfig(
            learning_starts=100, batch_size=16, capacity=2000, network=make, parameter_sharing=sharing, ensemble=2
        )
        folder = tmp_path / f"run{len(sharing)}"
        result = rl.train(config, "simple_tag", folder=folder, steps=400, **FEW)
        assert np.isfinite(result.metrics["train/agent/critic_loss"])


def test_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused(rl.errors.OptionError, "device", got="'tpu9000'"):
        training.RunConfig(device="tpu9000")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    with refused(rl.errors.OptionError, "device", got="'cuda'"):
        rl.train(SMALL, "simple", folder=tmp_path / "no", device="cuda")
    folder = tmp_path / "run"
    rl.train(SMALL, "simple", folder=folder, steps=200, **FEW)
    config = (folder / "config.toml").read_text()
    assert 'device = "cpu"' in config
    (folder / "config.toml").write_text(config.replace('device = "cpu"', 'device = "cuda"'))  # as from another machine
    assert load_run(folder).evaluate(2)["length"] == 25
    assert cli.main(["train", "--resume", str(folder), "--steps", "300"]) == 2
    assert cli.main(["train", "--resume", str(folder), "--steps", "300", "--device", "cpu"]) == 0
    assert 'device = "cpu"' in (folder / "config.toml").read_text()


def test_without_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run by torch alone: the same up to rounding, and not one call of the core."""
    calls, made = [], kernels._perceptrons
    monkeypatch.setattr(kernels, "_perceptrons", lambda shape: calls.append(shape) or made(shape))
    losses = []
    for native in (True, False):
        calls.clear()
        result = rl.train(SMALL, "simple_spread", folder=tmp_path / str(native), steps=400, kernels=native, **FEW)
        losses.append(result.metrics["train/critic_loss"])
        assert bool(calls) == native
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
    kernels.use(True)
