"""AgileRL on mpe2: the body of its training loop, without evaluation and evolution."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from agilerl.algorithms import MADDPG
from agilerl.components.data import MultiAgentTransition, transition_to_tensordict
from agilerl.components.replay_buffer import ReplayBuffer
from agilerl.vector import PzDummyVecEnv
from clock import Clock, arguments
from mpe2 import simple_spread_v3

NETWORKS = {"latent_dim": 64, "encoder_config": {"hidden_size": [64]}, "head_config": {"hidden_size": [8]}}
"""Hidden layers of 64, 64 and 8: a head has to have one of its own here."""


def main() -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    asked = arguments()
    clock = Clock(asked["warm"])
    env = PzDummyVecEnv(simple_spread_v3.parallel_env(continuous_actions=True))
    names = list(env.agents)
    agent = MADDPG(
        [env.single_observation_space(name) for name in names],
        [env.single_action_space(name) for name in names],
        agent_ids=names,
        net_config=NETWORKS,
        batch_size=asked["batch"],
        learn_step=asked["every"],
    )
    memory = ReplayBuffer(max_size=200_000)
    agent.set_training_mode(True)
    seen, info = env.reset()
    step = 0
    while True:
        action, raw = agent.get_action(obs=seen, infos=info)
        following, reward, terminated, truncated, info = env.step(action)
        row = transition_to_tensordict(
            MultiAgentTransition(obs=seen, action=raw, reward=reward, next_obs=following, done=terminated)
        )
        row.batch_size = torch.Size([1])
        memory.add(row)
        if step % asked["every"] == 0 and len(memory) >= asked["batch"]:
            agent.learn(memory.sample(asked["batch"]))
        seen = following
        if all(np.any(truncated[name]) or np.any(terminated[name]) for name in names):
            agent.reset_action_noise([0])
        step += 1
        clock.tick(1)


main()
