"""Runs: the same from the same seed, whole after any stop, and everything in its folder."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from small_runs import parameters, same

import relive as rl
from refusals import refused
from relive.agents.maddpg import MADDPG, MADDPGConfig
from relive.agents.mappo import MAPPOConfig
from relive.agents.qmix import QMIXConfig
from relive.training import checkpoint
from relive.training.config_file import describe, read_config
from relive.training.loggers import read_metrics
from relive.training.replay import load_run

SMALL = MADDPGConfig(learning_starts=500, batch_size=64, update_every=40, capacity=2000, hidden=(16,))


MIXED = QMIXConfig(
    learning_starts=8, batch_size=8, buffer_size=40, hidden=8, mixing_units=4, hypernet_units=4, epsilon_steps=3000
)


FEW: dict[str, Any] = {"num_envs": 8, "eval_every": 1000, "eval_episodes": 5, "save_every": 700, "video": False}


POLICY = "networks.agents.policy.per_agent.networks.layers.0.weight"


@pytest.mark.parametrize(
    ("env", "algorithm"),
    [
        ("simple_spread", SMALL),
        (
            "simple_tag",
            MADDPGConfig(learning_starts=500, batch_size=64, update_every=40, capacity=2000, per_alpha=0.6, n_step=3),
        ),
        pytest.param("marines_3v3", SMALL, marks=pytest.mark.slow),
        (
            "simple_tag",
            dataclasses.replace(SMALL, ensemble=2, infer_policies=True, normalize_obs=True, normalize_reward=True),
        ),
        ("marines_3v3", MIXED),
        ("simple_spread", dataclasses.replace(MIXED, mixer="vdn", per_alpha=0.6, td_lambda=0.5, update_every=2)),
        pytest.param(
            "marines_3v3",
            dataclasses.replace(MIXED, mixer="none", parameter_sharing=False, standardize_reward=True),
            marks=pytest.mark.slow,
        ),
        ("marines_3v3", MAPPOConfig(rollout=31, epochs=2, recurrent=True, normalize_obs=True, hidden=(8,))),
        pytest.param(
            "simple_tag",
            MAPPOConfig(rollout=31, clip=0.0, epochs=1, standardize_reward=True, hidden=(8,)),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_stopped_and_resumed_is_as_if_it_had_not(env: str, algorithm: Any, tmp_path: Path) -> None:
    rl.train(algorithm, env, folder=tmp_path / "whole", steps=4000, **FEW)
    rl.train(algorithm, env, folder=tmp_path / "parts", steps=1700, **FEW)
    for steps in (2304, 4000):
        rl.resume(tmp_path / "parts", steps=steps)
    same(tmp_path / "whole", tmp_path / "parts")


def test_an_algorithm_by_its_name(tmp_path: Path) -> None:
    done = rl.train("ppo", "bitflip", folder=tmp_path / "run", steps=64, num_envs=2, eval_episodes=2, video=False)
    assert done.steps >= 64
    assert describe(tmp_path / "run" / "config.toml").algorithm == "ppo"
    with refused(rl.errors.OptionError, "algorithm", got="'pppo'"):
        rl.train("pppo", "bitflip", folder=tmp_path / "other")


def test_the_seed_decides(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        rl.train(SMALL, "simple_spread", folder=tmp_path / name, steps=1500, seed=seed, **FEW)
    same(tmp_path / "a", tmp_path / "b", averages=True)
    assert not torch.equal(*(parameters(tmp_path / name)[POLICY] for name in ("a", "c")))


def test_what_a_folder_holds(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    seen: list[tuple[int, int]] = []
    result = rl.train(
        SMALL,
        "simple_tag",
        folder=folder,
        steps=2000,
        progress=lambda steps, total, _: seen.append((steps, total)),
        env_options={"num_good": 2},
        **(FEW | {"video": True}),
    )
    assert result.steps == 2000
    assert not result.interrupted
    assert seen[-1] == (2000, 2000)
    assert len(seen) == 253  # every step of all environments, and three evaluations
    assert {"adversary/return", "agent/return", "length", "info/caught", "train/agent/return"} <= set(result.metrics)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1000, 2000]
    assert all(np.isfinite(list(line.values())).all() for line in lines)
    with Image.open(folder / "curve.png") as curve:
        assert curve.size[0] > 600
    with Image.open(folder / "episode.gif") as film:
        assert film.n_frames > 5  # type: ignore[attr-defined]
    assert list((folder / "tensorboard").glob("events*"))
    env, algorithm, config = read_config(folder / "config.toml")
    assert env == "simple_tag"
    assert algorithm == SMALL
    assert config.env_options == {"num_good": 2}
    memory = checkpoint.load_memory(folder)
    assert memory.schema["agent/obs"].shape == (2, 18)
    assert len(memory) == 1920  # 2,000 rows, of which one in 25 closes an episode


def test_an_adapted_environment_begins_anew_on_resuming(tmp_path: Path) -> None:
    few = FEW | {"num_envs": 2, "steps": 600, "eval_every": 300}
    algorithm = MADDPGConfig(learning_starts=100, batch_size=16, update_every=50, capacity=2000, hidden=(8,))
    rl.train(algorithm, "pettingzoo:mpe2.simple_spread_v3", folder=tmp_path / "run", **few)
    result = rl.resume(tmp_path / "run", steps=900)
    assert result.steps == 900
    batch = checkpoint.load_memory(tmp_path / "run").sample(500)
    assert (np.abs(batch.next_obs[..., 2:4] - batch.obs[..., 2:4]) < 0.5).all()  # no step joins two episodes


def test_nan_stops_a_run_and_keeps_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    real = MADDPG.learn
    count = [0]

    def learn(self: MADDPG, *given: Any) -> Any:
        count[0] += 1
        metrics = real(self, *given)
        return {**metrics, "actor_loss": float("nan")} if count[0] == 40 else metrics

    monkeypatch.setattr(MADDPG, "learn", learn)
    with refused(rl.errors.RunError, "actor_loss", got="NaN or infinity"):
        rl.train(SMALL, "simple_spread", folder=folder, steps=4000, **FEW)
    monkeypatch.setattr(MADDPG, "learn", real)
    rl.resume(folder)
    rl.train(SMALL, "simple_spread", folder=tmp_path / "whole", steps=4000, **FEW)
    same(tmp_path / "whole", folder, averages=True)


def test_a_run_is_always_evaluated_at_its_end(tmp_path: Path) -> None:
    result = rl.train(SMALL, "simple", folder=tmp_path / "run", steps=100, num_envs=4, eval_episodes=3, video=False)
    assert result.metrics["return"] < 0
    assert [line["step"] for line in read_metrics(tmp_path / "run")][-1] == 100
    with refused(rl.errors.OptionError, "steps", got="50"):
        rl.resume(tmp_path / "run", steps=50)


def test_a_film_that_fails_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from relive.envs.particle import World

    monkeypatch.setattr(World, "render", lambda *_: 1 / 0)
    with pytest.warns(UserWarning, match=r"^simple could not be recorded: division by zero$"):
        result = rl.train(SMALL, "simple", folder=tmp_path / "run", steps=40, num_envs=4, eval_episodes=3)
    assert result.steps == 40


def test_folders_that_cannot_be(tmp_path: Path) -> None:
    with refused(rl.errors.OptionError, "environment"):
        rl.train(SMALL, "simpel_spread", folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    rl.train(SMALL, "simple", folder=tmp_path / "run", **(FEW | {"steps": 8}))
    with refused(rl.errors.RunError, "folder"):
        rl.train(SMALL, "simple", folder=tmp_path / "run")
    with refused(rl.errors.RunError, "run"):
        rl.resume(tmp_path / "nowhere")
    config = (tmp_path / "run" / "config.toml").read_text()
    (tmp_path / "run" / "config.toml").write_text(config.replace("hidden = [", "hidden = [24, "))
    for again in (rl.resume, load_run):
        with refused(rl.errors.RunError, "config.toml"):
            again(tmp_path / "run")
    (tmp_path / "run" / "config.toml").write_text(config)
    state = tmp_path / "run" / "state-0.safetensors"
    whole = state.read_bytes()
    state.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with refused(rl.errors.RunError, "state-0.safetensors", got="a file with another checksum"):
        rl.resume(tmp_path / "run")
    state.write_bytes(whole)
    (tmp_path / "run" / "checkpoint.json").write_text('{"format": "relive checkpoint", "version": 9}')
    with refused(rl.errors.RunError, "checkpoint.json", got="'relive checkpoint', version 9"):
        rl.resume(tmp_path / "run")
    (tmp_path / "run" / "checkpoint.json").unlink()
    with refused(rl.errors.RunError, "folder"):
        rl.train(SMALL, "simple", folder=tmp_path / "run")
    with refused(rl.errors.RunError, "run"):
        rl.resume(tmp_path / "run")
