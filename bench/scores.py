"""What algorithms reach: several seeds each, judged without exploration by a thousand episodes of their own.

python bench/scores.py --report docs/bench     (hours; --only NAME for one of them, --workers N)

Runs are kept under runs/scores, and those that are finished are not trained again.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from training import train

from relive.agents.coma import COMAConfig
from relive.agents.dqn import DQNConfig
from relive.agents.maddpg import MADDPGConfig
from relive.agents.mappo import MAPPOConfig
from relive.agents.ppo import PPOConfig
from relive.agents.qmix import QMIXConfig
from relive.agents.registry import find
from relive.agents.sac import SACConfig
from relive.agents.td3 import TD3Config
from relive.cli.process import settle_process
from relive.training.curves import bootstrap_ci
from relive.training.replay import load_run

EPISODES = 1_000
FOLDER = Path("runs/scores")
DRAWN = "return, actions drawn"
"""Of policies that are meant to be stochastic: those that always do the likeliest can go round in circles."""

PAGE = """# Scores

Written by `make scores` on {day}: {episodes:,} episodes a seed (100 of HalfCheetah) at the end of training, without
exploration, from starts that training never saw. Interquartile mean over the seeds with its 95% interval (bootstrap),
then each seed. No setting was chosen on these seeds.

{table}

The commands that train them, all seeds of a row at once:

{commands}

`relive eval FOLDER/seed_1 --episodes {episodes} --seed 10001` then gives the first seed's figures, and so on.
"""


@dataclass(frozen=True)
class Contest:
    """Something to learn, and what is asked of it."""

    env: str
    algorithm: Any
    figures: tuple[str, ...]
    goal: str
    steps: int = 1_000_000
    options: dict[str, Any] = field(default_factory=dict)
    seeds: int = 5
    num_envs: int = 0
    """Vectorised environments; 0: as many as suit the algorithm."""
    first: int = 1
    """The first of these seeds: others where a setting was changed after a look at the first ones."""
    module: str = ""
    """What registers the environment, beside this file."""
    episodes: int = EPISODES
    """By which it is judged; a tenth of them along the way."""


LARGE_BATCHES: dict[str, Any] = {"batch_size": 1024, "update_every": 100}
AS_PUBLISHED: dict[str, Any] = {"simplex_actions": True, "actor_lr": 0.01, "critic_lr": 0.01, **LARGE_BATCHES}
CONTINUOUS = {"continuous_actions": True}
WIDE = MADDPGConfig(capacity=500_000, hidden=(128, 128), lr_end=0.1)
ON_GOAL = ("agent_on_goal", "adversary_on_goal")

CONTESTS = {
    "spread": Contest("simple_spread", WIDE, ("return",), "-10.4 at 1M", options=CONTINUOUS, seeds=10),
    "speaker": Contest(
        "simple_speaker_listener", MADDPGConfig(capacity=500_000, **LARGE_BATCHES), ("listener/return",), "-15 at 1M"
    ),
}
# Predators against prey that learns alone: early, and once the prey has learned to run.
for name, steps in {"tag": 250_000, "tag_late": 1_000_000}.items():
    CONTESTS[name] = Contest(
        "simple_tag",
        MADDPGConfig(ddpg=("agent",), capacity=500_000),
        ("adversary/return", "agent/return"),
        "predators 15" if name == "tag" else "",
        steps=steps,
        options=CONTINUOUS,
    )
# Who learns by MADDPG and who by DDPG, agents first: the pairings of the paper's table, in OpenAI's own world.
for name, groups in {"mm": (), "md": ("adversary",), "dm": ("agent",), "dd": ("all",)}.items():
    CONTESTS[f"deception_{name}"] = Contest(
        "simple_adversary",
        MADDPGConfig(ddpg=groups, **AS_PUBLISHED),
        (*ON_GOAL, "agent/return", "adversary/return"),
        "agents .90, adversary .45" if name == "mm" else "",
        steps=1_500_000,
        seeds=10,  # DDPG's policies come out very different
        options={**CONTINUOUS, "squared": True, "velocity_first": True},
    )


# QMIX, VDN and IQL on whole episodes.
for name, mixer in {"qmix": "qmix", "vdn": "vdn", "iql": "none"}.items():
    CONTESTS[f"marines_{name}"] = Contest(
        "marines_4v4",
        QMIXConfig(mixer=mixer),
        ("battle_won", "return"),
        "QMIX .95 won at 500k" if name == "qmix" else "",
        steps=500_000,
    )
CONTESTS["marines_long"] = Contest(
    "marines_4v4", QMIXConfig(), ("battle_won", "return"), ".95 won at 2.05M", steps=2_050_000, seeds=1
)
CONTESTS["marines_8v8"] = Contest("marines_8v8", QMIXConfig(), ("battle_won", "return"), ".9 won", steps=300_000)
CONTESTS["spread_qmix"] = Contest(
    "simple_spread",
    QMIXConfig(gamma=0.9, lr=2e-3, lr_end=0.1, recurrent=False, hidden=128),
    ("return",),
    "-9.0 at 1M, a sum of -27",
)

# One choice of two agents, where the best pair of actions is a costly mistake alone.
for name in ("qmix", "qplex"):
    CONTESTS[f"climbing_{name}"] = Contest("climbing", find(name), ("return",), "11, solved", steps=20_000, first=11)

# Policy gradients from rollouts, with the settings there are by default.
DECAY = {"lr_end": 0.1, "lr_steps": 2_000_000}
LONGER = MAPPOConfig(gamma=0.99)
CONTESTS |= {
    "spread_mappo": Contest("simple_spread", MAPPOConfig(**DECAY), ("return",), "-11.5 at 5M", steps=2_000_000),
    "spread_ippo": Contest(
        "simple_spread", MAPPOConfig(critic="own", **DECAY), ("return",), "within 2 of MAPPO", steps=2_000_000
    ),
    "speaker_mappo": Contest(
        "simple_speaker_listener", MAPPOConfig(**DECAY), ("listener/return",), "-13", steps=2_000_000
    ),
    "marines_mappo": Contest("marines_4v4", LONGER, ("battle_won", "return"), ".95 won", steps=1_000_000, first=11),
    "marines_8v8_mappo": Contest("marines_8v8", LONGER, ("battle_won", "return"), ".95 won", steps=1_000_000, first=11),
    "reference_mappo": Contest("simple_reference", MAPPOConfig(**DECAY), ("return",), "-17", steps=2_000_000),
    "tag_mappo": Contest("simple_tag", MAPPOConfig(), ("adversary/return", "agent/return"), ""),
    "foraging_mappo": Contest(
        "lbforaging:Foraging-8x8-2p-2f-coop-v3",
        MAPPOConfig(gamma=0.99, entropy=0.01, epochs=8, reward="sum", lr_end=0.1, lr_steps=1_500_000),
        ("return", DRAWN),
        ".475, a sum of .95",
        steps=1_500_000,
        num_envs=64,
        first=21,
    ),
    "spread_coma": Contest("simple_spread", COMAConfig(), ("return",), "better than -21.6", steps=2_000_000),
}

# Soft actor-critics of many agents, as they are by default.
for name in ("masac", "isac"):
    CONTESTS[f"spread_{name}"] = Contest("simple_spread", find(name), ("return",), "", options=CONTINUOUS)
    CONTESTS[f"marines_{name}"] = Contest("marines_4v4", find(name), ("battle_won", "return"), "", steps=200_000)

# One agent.
AT_ONCE = {"learning_starts": 1_000}
CONTESTS |= {
    "cartpole_ppo": Contest("CartPole-v1", PPOConfig(), ("return",), "490", steps=100_000),
    "pendulum_sac": Contest("Pendulum-v1", SACConfig(**AT_ONCE), ("return",), "-160 at 20k", steps=20_000),
    "pendulum_td3": Contest("Pendulum-v1", TD3Config(**AT_ONCE), ("return",), "-160 at 20k", steps=20_000),
}
STEADY: dict[str, Any] = {"lr": 5e-4, "lr_end": 0.02, "lr_steps": 100_000, "batch_size": 128, "n_step": 5, "tau": 0.005}
PRIORITIES: dict[str, Any] = {"per_alpha": 0.4, "per_beta_steps": 100_000}
DDPG = find("ddpg")
CONTESTS |= {
    "cartpole_dqn": Contest("CartPole-v1", DQNConfig(**STEADY), ("return",), "490", steps=100_000),
    "cartpole_per": Contest(
        "CartPole-v1", DQNConfig(**STEADY, **PRIORITIES), ("return",), "490", steps=100_000, first=11
    ),
    "acrobot_dqn": Contest("Acrobot-v1", DQNConfig(**STEADY), ("return",), "-90", steps=100_000),
    "pendulum_ddpg": Contest("Pendulum-v1", replace(DDPG, **AT_ONCE), ("return",), "-160 at 20k", steps=20_000),
}
CONTESTS["positions_r2d2"] = Contest(
    "cartpole_positions",
    replace(find("r2d2"), lr_end=0.05, lr_steps=60_000),
    ("return",),
    "450",
    steps=60_000,
    first=11,
    module="partially_observed",
)
CONTESTS["lunar_dqn"] = Contest(
    "LunarLander-v3",
    DQNConfig(
        lr=1.5e-3,
        lr_end=0.02,
        lr_steps=300_000,
        batch_size=128,
        n_step=4,
        tau=0.01,
        update_every=4,
        dueling=True,
        per_alpha=0.4,
        per_beta_steps=300_000,
        epsilon_end=0.02,
        epsilon_steps=60_000,
    ),
    ("return",),
    "250 at 300k",
    steps=300_000,
    num_envs=8,
)
CONTESTS["breakout_ppo"] = Contest(
    "minatar_breakout",
    PPOConfig(
        lr=2e-3,
        lr_end=0.01,
        lr_steps=3_000_000,
        entropy=0.01,
        minibatches=8,
        encoder="flat",
        activation="relu",
        hidden=(128, 128),
    ),
    ("return", DRAWN),
    "28, by gymnax at 10M without stuck actions",
    steps=3_000_000,
    num_envs=64,
    first=21,
    module="small_pictures",
)
CHEETAH: dict[str, Any] = {"seeds": 3, "episodes": 100}
CONTESTS |= {
    "cheetah_td3": Contest(
        "HalfCheetah-v5",
        TD3Config(batch_size=128, learning_starts=25_000),
        ("return",),
        "7,500 at 500k",
        steps=500_000,
        first=11,
        **CHEETAH,
    ),
    "cheetah_sac": Contest(
        "HalfCheetah-v5",
        SACConfig(batch_size=128, update_every=2),
        ("return",),
        "9,500 at 1M",
        num_envs=2,
        first=11,
        **CHEETAH,
    ),
}
for name, way in {"bitflip_hindsight": "future", "bitflip_without": "none"}.items():
    CONTESTS[name] = Contest(
        "bitflip",
        DQNConfig(hindsight=way, gamma=0.98, hidden=(256,)),  # type: ignore[arg-type]
        ("is_success", "return"),
        "solved" if way == "future" else "",
        steps=20_000,
        num_envs=8,
    )


def score(name: str, seed: int) -> dict[str, float]:
    """Train, or go on, and judge."""
    contest, folder = CONTESTS[name], FOLDER / name / f"seed_{seed}"
    how: dict[str, Any] = {"num_envs": contest.num_envs} if contest.num_envs else {}
    if contest.episodes != EPISODES:
        how["eval_episodes"] = contest.episodes // 10
    if contest.module:
        import_module(contest.module)
    train(folder, contest.algorithm, contest.env, contest.steps, seed=seed, env_options=contest.options, **how)
    trained = load_run(folder, trust=bool(contest.module))
    found = trained.evaluate(contest.episodes, seed=10_000 + seed)
    if DRAWN in contest.figures:
        found[DRAWN] = trained.evaluate(contest.episodes, seed=10_000 + seed, explore=True)["return"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--report", type=Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", choices=list(CONTESTS), default=list(CONTESTS))
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of as many as each has")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    lines = ["| | figure | mean | 95% | seeds | goal |", "|---|---|---|---|---|---|"]
    with ProcessPoolExecutor(asked.workers, initializer=settle_process, initargs=(1,)) as pool:
        runs = {name: [pool.submit(score, name, seed) for seed in asked.seeds or _seeds(name)] for name in asked.only}
        for name, going in runs.items():
            found = []
            for each in going:
                found.append(each.result())
                print(f"{name}: {found[-1]}", flush=True)  # what is known, should it be stopped
            for figure in CONTESTS[name].figures:
                values = [each[figure] for each in found]
                middle, low, high = (float(part[0]) for part in bootstrap_ci(np.array(values)[:, None]))
                each = ", ".join(f"{value:.2f}" for value in values)
                goal = CONTESTS[name].goal if figure == CONTESTS[name].figures[0] else ""
                lines.append(f"| {name} | {figure} | {middle:.2f} | {low:.2f} to {high:.2f} | {each} | {goal} |")
                print(lines[-1], flush=True)
    if asked.report:
        commands = "\n".join(f"- {name}: `{command(name)}`" for name in asked.only)
        page = PAGE.format(day=date.today(), episodes=EPISODES, table="\n".join(lines), commands=commands)
        (asked.report / "scores.md").write_text(page)


def _seeds(name: str) -> list[int]:
    contest = CONTESTS[name]
    return list(range(contest.first, contest.first + contest.seeds))


def command(name: str) -> str:
    """What trains the seeds of a contest."""
    contest = CONTESTS[name]
    algorithm = find(contest.algorithm.name)
    own = {key: value for key, value in vars(contest.algorithm).items() if value != getattr(algorithm, key)}
    flags = [f"--steps {contest.steps}", *(_flag(key, value) for key, value in own.items())]
    flags += [f"--num-envs {contest.num_envs}"] if contest.num_envs else []
    flags += [f"--eval-episodes {contest.episodes // 10}"] if contest.episodes != EPISODES else []
    flags += [f"--option {key}={str(value).lower()}" for key, value in contest.options.items()]
    flags += [f"--import {contest.module}"] if contest.module else []
    seeds = " ".join(map(str, _seeds(name)))
    return f"relive train {algorithm.name} {contest.env} {' '.join(flags)} --seeds {seeds}"


def _flag(key: str, value: Any) -> str:
    name = key.replace("_", "-")
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name} {' '.join(map(str, value)) if isinstance(value, tuple) else value}"


if __name__ == "__main__":
    main()
