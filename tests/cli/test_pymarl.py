"""PyMARL's command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relive import cli
from relive.agents.coma import COMAConfig
from relive.agents.mappo import MAPPOConfig
from relive.agents.qmix import QMIXConfig
from relive.cli import pymarl
from relive.training import RunConfig
from relive.training.config_file import read_config


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would have been trained."""
    found: list[Any] = []

    def note(*what: Any) -> int:
        found.append(what)
        return 0

    monkeypatch.setattr(pymarl, "notified_run", note)
    return found


def test_the_documents_own_line(asked: list[Any]) -> None:
    line = "pymarl --config=qmix --env-config=sc2 with env_args.map_name=MarineMicro_MvsM_4 t_max=2050000"
    assert cli.main(line.split()) == 0
    algorithm, env, run = asked[0]
    assert env == "MarineMicro_MvsM_4"
    assert algorithm == QMIXConfig(**QMIXConfig().presets["pymarl"])
    assert run == RunConfig(steps=2_050_000, eval_every=10_000, eval_episodes=32)


def test_keys_are_mapped(asked: list[Any]) -> None:
    line = """pymarl --config vdn --env-config gymma with env_args.key=pz-mpe-simple-speaker-listener-v4
        env_args.time_limit=30 lr=1e-3 batch_size=8 buffer_size=100 rnn_hidden_dim=16 epsilon_finish=0.1
        epsilon_anneal_time=7 target_update_interval_or_tau=0.01 grad_norm_clip=5 double_q=False hypernet_layers=1
        obs_last_action=false use_rnn=False standardise_rewards=True reward_scalarisation=mean test_interval=100
        test_nepisode=3 seed=9 use_cuda=False runner=parallel batch_size_run=4 gamma=1 optimizer=adam td_lambda=0.5"""
    assert cli.main(line.split()) == 0
    algorithm, env, run = asked[0]
    assert env == "simple_speaker_listener"
    assert algorithm == QMIXConfig(
        mixer="vdn",
        lr=1e-3,
        batch_size=8,
        learning_starts=8,
        buffer_size=100,
        hidden=16,
        epsilon_end=0.1,
        epsilon_steps=7,
        tau=0.01,
        max_grad_norm=5.0,
        double_q=False,
        hypernet_units=0,
        last_action=False,
        bootstrap_on_truncation=False,
        clip_targets=False,
        recurrent=False,
        standardize_reward=True,
        reward="mean",
        update_every=4,
        gamma=1.0,
        optimizer="adam",
        td_lambda=0.5,
    )
    options = {"state": True, "max_cycles": 25}  # where PettingZoo's own end
    wanted = RunConfig(steps=2_050_000, eval_every=100, eval_episodes=3, seed=9, num_envs=4, env_options=options)
    assert run == wanted


def test_epymarls_policy_gradients(asked: list[Any]) -> None:
    line = "pymarl --config=mappo --env-config=gymma with env_args.key=mpe:SimpleSpread-v0 env_args.time_limit=25"
    assert cli.main(line.split()) == 0
    assert (
        cli.main([*line.replace("mappo", "ia2c").split(), "batch_size_run=4", "batch_size=4", "common_reward=False"])
        == 0
    )
    more = "epochs=7 eps_clip=0.1 entropy_coef=0.02 q_nstep=3 lr=1e-3 hidden_dim=32 use_rnn=False grad_norm_clip=5"
    more += " target_update_interval_or_tau=0.5 obs_individual_obs=True critic_type=cv_critic learner=ppo_learner"
    assert cli.main([*line.split(), *more.split()]) == 0
    preset = MAPPOConfig().presets["epymarl"]
    algorithm, env, run = asked[0]
    assert env == "simple_spread"
    assert algorithm == MAPPOConfig(**preset, rollout=25)
    options = {"state": True, "max_cycles": 25, "velocity_first": True}
    assert run == RunConfig(steps=2_050_000, eval_every=50_000, eval_episodes=100, num_envs=10, env_options=options)
    independent = MAPPOConfig(critic="own", clip=0.0, epochs=1)
    own = {**independent.presets["epymarl"], "reward": "own", "rollout": 25}
    assert asked[1][0] == replace(independent, **own)
    assert asked[1][2].num_envs == 4
    changed = {"epochs": 7, "clip": 0.1, "entropy": 0.02, "n_step": 3, "actor_lr": 1e-3, "critic_lr": 1e-3}
    changed |= {"hidden": (32, 32), "recurrent": False, "max_grad_norm": 5.0, "target_tau": 0.5, "critic": "agent"}
    assert asked[2][0] == MAPPOConfig(**{**preset, "rollout": 25, **changed})


def test_epymarls_coma(asked: list[Any]) -> None:
    line = "pymarl --config=coma --env-config=sc2 with env_args.map_name=3m critic_train_reps=2"
    line += " target_update_interval_or_tau="
    assert cli.main(f"{line}100".split()) == 0
    assert cli.main(f"{line}0.01".split()) == 0
    algorithm, env, _ = asked[0]
    assert env == "marines_3v3"
    wanted = {**COMAConfig().presets["epymarl"], "rollout": 60, "critic_epochs": 2, "target_update_interval": 100}
    assert algorithm == COMAConfig(**wanted)
    assert asked[1][0] == COMAConfig(**{**wanted, "target_update_interval": 200, "tau": 0.01})


@pytest.mark.parametrize(
    ("words", "env", "options"),
    [
        ("with env_args.map_name=3m", "marines_3v3", {}),
        ("with env_args.map_name=5m_vs_6m env_args.reward_sparse=True", "marines_5v6", {"reward": "sparse"}),
        ("with env_args.map_name=8m env_args.reward_only_positive=False", "marines_8v8", {"reward": "losses"}),
        (
            "--env-config=gymma with env_args.key=mpe:SimpleTag-v0",
            "simple_tag",
            {"state": True, "max_cycles": 100, "velocity_first": True},
        ),
        (
            "--env-config=gymma with env_args.key=mpe:SimpleAdversary-v0 env_args.time_limit=30",
            "simple_adversary",
            {"state": True, "max_cycles": 30, "velocity_first": True, "squared": True},
        ),
        (
            "--env-config=gymma with env_args.key=pz-mpe-simple-adversary-v3 env_args.time_limit=9",
            "simple_adversary",
            {"state": True, "max_cycles": 9},
        ),
    ],
)
def test_names_of_environments(words: str, env: str, options: dict[str, Any], asked: list[Any]) -> None:
    assert cli.main(["pymarl", "--config=iql", *words.split()]) == 0
    name = "epymarl" if "gymma" in words else "pymarl"
    assert asked[0][0] == QMIXConfig(mixer="none", **QMIXConfig(mixer="none").presets[name])
    assert asked[0][1] == env
    assert asked[0][2].env_options == options


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--config=qmx",
            "--config must be one of qmix, vdn, iql, mappo, ippo, maa2c, ia2c, coma, got 'qmx'. Did you mean 'qmix'?",
        ),
        ("--config=qmix --env-config=sc", "--env-config must be one of sc2, gymma, got 'sc'. Did you mean 'sc2'?"),
        ("--config=qmix --seed=3", "flag must be one that PyMARL's configs have, got '--seed'"),
        ("--config", "--config must be followed by a name, got nothing"),
        ("--config=qmix t_max", "argument must be KEY=VALUE after with, got 't_max'"),
        (
            "--config=qmix with t_maxx=3",
            "setting must be one that PyMARL's configs have, got 't_maxx'. Did you mean 't_max'?",
        ),
        ("--config=qmix with batch_size=a", "batch_size must be a whole number, got 'a'"),
        ("--config=qmix with double_q=3", "double_q must be True or False, got 3"),
        ("--config=qmix with lr=True", "lr must be a number, got True"),
        ("--config=qmix with mixer=max", "mixer must be one of qmix, vdn, iql, None, got 'max'. Did you mean 'qmix'?"),
        ("--config=qmix with runner=foo", "runner must be 'episode' or 'parallel' here, got 'foo'"),
        ("--config=qmix with env_args.step_mul=4", "env_args.step_mul must be 8 here, got 4"),
        (
            "--config=qmix with env_args.reward_sparse=maybe",
            "env_args.reward_sparse must be True or False, got 'maybe'",
        ),
        ("--config=qmix with reward_scalarisation=max", "reward_scalarisation must be 'sum' or 'mean' here, got 'max'"),
        (
            "--config=qmix with common_reward=False",
            "common_reward must be True where values are mixed, got False. Use --config=iql.",
        ),
        (
            "--config=qmix --env-config=gymma with env_args.key=mpe:SimpleTag-v0 env_args.pretrained_wrapper=Tag",
            "env_args.pretrained_wrapper must be None here, got 'Tag'",
        ),
        (
            "--config=qmix --env-config=gymma with env_args.key=mpe:SimpleTag-v0 env_args.time_limit=abc",
            "env_args.time_limit must be a whole number, got 'abc'",
        ),
        (
            "--config=qmix --env-config=gymma with env_args.key=mpe:SimpleTag-v0 target_update_interval_or_tau=0",
            "target_update_interval_or_tau must be above 0, got 0. Targets would never move.",
        ),
        ("--env-config=sc2", "--config must be one of qmix, vdn, iql, mappo, ippo, maa2c, ia2c, coma, got nothing"),
        ("--config=qmix with use_cuda=banana", "use_cuda must be True or False, got 'banana'"),
        (
            "--config=qmix with map_name=3m",
            "setting must be one that PyMARL's configs have, got 'map_name'. Did you mean 'env_args.map_name'?",
        ),
        (
            "--config=qmix --env-config=gymma with env_args.key=lbforaging:Foraging-8x8-2p-3f-v3",
            "env_args.key must name a particle world, got 'lbforaging:Foraging-8x8-2p-3f-v3'. Such as "
            "mpe:SimpleSpread-v0.",
        ),
        ("--config=qmix with test_nepisode=0", "test_nepisode must be at least 1, got 0"),
        ("--config=qmix with batch_size=-3", "batch_size must be finite and at least 1, got -3"),
        ("--config=qmix with batch_size_run=0", "batch_size_run must be above 0, got 0"),
        (
            "--config=qmix with batch_size=64 buffer_size=8",
            "batch_size must be at most the buffer_size of 8, got 64",
        ),
        ("--config=qmix with env_args.difficulty=1", "env_args.difficulty must be '7' or 7 here, got 1"),
        (
            "--config=qmix with env_args.mapname=3m",
            "argument of the environment must be one that PyMARL's configs have, got 'env_args.mapname'. "
            "Did you mean 'env_args.map_name'?",
        ),
        (
            "--config=qmix with env_args.map_name=2s3z",
            "env_args.map_name must be a map of marines, such as MarineMicro_MvsM_4 or 5m_vs_6m, got 2s3z. Other units "
            "are StarCraft's: `relive train qmix pymarl:smac.env:StarCraft2Env --option map_name=2s3z` "
            "plays the real one.",
        ),
        (
            "--config=qmix --env-config=gymma",
            "env_args.key must name a particle world, got None. Such as mpe:SimpleSpread-v0.",
        ),
        ("--config=mappo with batch_size=5", "batch_size must be the 10 of batch_size_run, got 5"),
        ("--config=mappo with critic_type=ac_critic", "critic_type must be 'cv_critic' here, got 'ac_critic'"),
        ("--config=ippo with eps_clip=-1", "eps_clip must be finite and at least 0, got -1.0"),
        ("--config=ippo with double_q=True", "setting must be one that PyMARL's configs have, got 'double_q'"),
        (
            "--config=coma with common_reward=False",
            "common_reward must be True for coma, got False. Use --config=ia2c.",
        ),
        (
            "--config=mappo with target_update_interval_or_tau=200",
            "target_update_interval_or_tau must be above 0 and at most 1 here, got 200. "
            "Target critics are updated softly (tau).",
        ),
    ],
)
def test_what_is_refused(words: str, message: str, asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pymarl", *words.split()]) == 2
    assert capsys.readouterr().err.strip() == message
    assert not asked


def test_what_epymarl_has(asked: list[Any]) -> None:
    """gymma is EPyMARL's, whose targets wait for updates; the order of keys does not matter."""
    line = "pymarl --config=qmix --env-config=gymma with env_args.key=mpe:SimpleSpread-v0"
    keys = (
        "target_update_interval_or_tau=50 batch_size_run=4 hypernet_layers=1 hypernet_embed=64 obs_individual_obs=False"
    )
    assert cli.main([*line.split(), *keys.split()]) == 0
    assert cli.main([*line.split(), *reversed(keys.split())]) == 0
    wanted = QMIXConfig(**QMIXConfig().presets["epymarl"], update_every=4, target_update_interval=200, hypernet_units=0)
    assert [algorithm for algorithm, _, _ in asked] == [wanted, wanted]
    assert cli.main([*line.split(), "batch_size_run=10"]) == 0
    changed = {"update_every": 10, "target_update_interval": 2000}
    assert asked[-1][0] == QMIXConfig(**QMIXConfig().presets["epymarl"] | changed)


def test_it_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    line = "pymarl --config=qmix --env-config=sc2 with env_args.map_name=MarineMicro_MvsM_4 t_max=1200 batch_size=4"
    assert cli.main([*line.split(), "test_nepisode=3", "rnn_hidden_dim=8"]) == 0
    assert "battle_won" in capsys.readouterr().out
    (folder,) = (tmp_path / "runs").iterdir()
    assert read_config(folder / "config.toml")[1].name == "qmix"
    assert (folder / "episode.gif").exists()


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pymarl", "--help"]) == 0
    assert "env_args.map_name" in capsys.readouterr().out
    assert cli.main(["pymarl"]) == 2


def test_presets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    flags = ["--steps", "16", "--num-envs", "4", "--eval-episodes", "2", "--no-video", "--folder", str(folder)]
    assert cli.main(["train", "qmix", "marines_3v3", "--preset=pymarl2", "--batch-size", "5", *flags]) == 0
    algorithm = read_config(folder / "config.toml")[1]
    assert (algorithm.batch_size, algorithm.td_lambda, algorithm.update_every) == (5, 0.6, 8)
    flags[-1], config = str(tmp_path / "other"), str(folder / "config.toml")
    assert cli.main(["train", "--config", config, "--preset", "pymarl", "--batch-size", "6", *flags]) == 0
    algorithm = read_config(tmp_path / "other" / "config.toml")[1]
    assert (algorithm.batch_size, algorithm.td_lambda, algorithm.update_every) == (6, 0.0, 8), (
        "presets go on top of a file"
    )
    with pytest.raises(SystemExit, match="0"):
        cli.main(["train", "iql", "--help"])
    shown = capsys.readouterr().out
    assert "--preset {None,pymarl,epymarl,pymarl2}" in shown
    assert "IQL: independent Q-learning" in shown


def test_presets_that_there_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "qmix", "marines_3v3", "--preset", "pymarl3"]) == 2
    assert cli.main(["train", "maddpg", "simple", "--preset", "pymarl"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "preset must be one of pymarl, epymarl, pymarl2, got 'pymarl3'. Did you mean 'pymarl'?",
        "--preset must be for an algorithm that has presets, got maddpg",
    ]
