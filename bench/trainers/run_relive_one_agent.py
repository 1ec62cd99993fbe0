"""relive's DQN, PPO or SAC by its own trainer, without evaluation and checkpoints."""

from __future__ import annotations

import sys
from typing import Any

from clock import Clock

from ours import train
from relive.agents.dqn import DQNConfig
from relive.agents.ppo import PPOConfig
from relive.agents.sac import SACConfig


def main() -> None:
    name, env, envs, warm = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:5])
    clock = Clock(warm, look_every=20 if name == "sac" else 500)
    configs: dict[str, Any] = {
        "dqn": DQNConfig(
            hidden=(120, 84),
            batch_size=128,
            update_every=10,
            capacity=10_000,
            learning_starts=1_000,
            lr=2.5e-4,
            double_q=False,
            tau=1.0,
            target_update_interval=50,
            td_loss="mse",
            max_grad_norm=0.0,
        ),
        "ppo": PPOConfig(hidden=(64, 64), rollout=128, epochs=4, minibatches=4, lr=2.5e-4, entropy=0.01),
        "sac": SACConfig(hidden=(256, 256), batch_size=256, learning_starts=1_000),
    }
    train(configs[name], env, envs, clock)


main()
