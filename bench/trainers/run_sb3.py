"""Stable-Baselines3's DQN, PPO or SAC, with the sizes and the schedule of the others."""

from __future__ import annotations

import sys
from typing import Any

import torch
from clock import SEED, Clock
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env


class Ticking(BaseCallback):
    """Tells the clock after every step of the environments."""

    def __init__(self, clock: Clock, envs: int) -> None:
        super().__init__()
        self._clock, self._envs = clock, envs

    def _on_step(self) -> bool:
        self._clock.tick(self._envs)
        return True


def main() -> None:
    name, env, envs, warm = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:5])
    torch.set_num_threads(1)
    clock = Clock(warm, look_every=20 if name == "sac" else 500)
    how: dict[str, Any] = {"device": "cpu", "seed": SEED, "verbose": 0}
    worlds = make_vec_env(env, envs, seed=SEED)
    model: Any
    if name == "dqn":
        model = DQN(
            "MlpPolicy",
            worlds,
            policy_kwargs={"net_arch": [120, 84]},
            batch_size=128,
            train_freq=10,
            buffer_size=10_000,
            learning_starts=1_000,
            learning_rate=2.5e-4,
            target_update_interval=500,
            **how,
        )
    elif name == "ppo":
        sizes = {"n_steps": 128, "batch_size": 128, "n_epochs": 4}
        model = PPO("MlpPolicy", worlds, learning_rate=2.5e-4, ent_coef=0.01, **sizes, **how)
    else:
        model = SAC("MlpPolicy", worlds, batch_size=256, learning_starts=1_000, buffer_size=1_000_000, **how)
    model.learn(10**9, callback=Ticking(clock, envs))


main()
