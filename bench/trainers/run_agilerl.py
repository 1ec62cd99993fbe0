"""AgileRL on mpe2: the body of its training loop, without evaluation and evolution; many environments in processes."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import torch
from agilerl.algorithms import MADDPG
from agilerl.components.data import MultiAgentTransition, transition_to_tensordict
from agilerl.components.replay_buffer import ReplayBuffer
from agilerl.vector import AsyncPettingZooVecEnv, PzDummyVecEnv
from clock import SEED, arguments, course_or_clock
from mpe2 import simple_spread_v3

NETWORKS = {"latent_dim": 64, "encoder_config": {"hidden_size": [64]}, "head_config": {"hidden_size": [8]}}
"""Hidden layers of 64, 64 and 8: a head has to have one of its own here."""


def main() -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002
    asked = arguments()
    count = asked["envs"]
    make = partial(simple_spread_v3.parallel_env, continuous_actions=True)
    env = PzDummyVecEnv(make()) if count == 1 else AsyncPettingZooVecEnv([make] * count)
    names = list(env.agents)
    agent = MADDPG(
        [env.single_observation_space(name) for name in names],
        [env.single_action_space(name) for name in names],
        agent_ids=names,
        net_config=NETWORKS,
        batch_size=asked["batch"],
        vect_noise_dim=count,
    )

    def judge() -> float:
        world, total = PzDummyVecEnv(make()), 0.0
        agent.set_training_mode(False)
        for _ in range(40):
            seen, info = world.reset()
            for _ in range(25):
                action, _ = agent.get_action(obs=seen, infos=info)
                seen, reward, _, _, info = world.step(action)
                total += sum(float(np.ravel(each)[0]) for each in reward.values()) / len(names)
        agent.set_training_mode(True)
        return total / 40

    clock = course_or_clock(judge, asked["warm"], look_every=20)
    memory = ReplayBuffer(max_size=200_000)
    agent.set_training_mode(True)
    seen, info = env.reset()
    step = learned = 0
    while True:
        action, raw = agent.get_action(obs=seen, infos=info)
        following, reward, terminated, truncated, info = env.step(action)
        row = transition_to_tensordict(
            MultiAgentTransition(obs=seen, action=raw, reward=reward, next_obs=following, done=terminated)
        )
        row.batch_size = torch.Size([count])
        memory.add(row)
        step += count
        if len(memory) >= asked["batch"]:
            while learned < step // asked["every"]:
                agent.learn(memory.sample(asked["batch"]))
                learned += 1
        else:
            learned = step // asked["every"]
        seen = following
        over = np.all([np.ravel(truncated[name]) | np.ravel(terminated[name]) for name in names], axis=0)
        agent.reset_action_noise(np.flatnonzero(over).tolist())
        clock.tick(count)


if __name__ == "__main__":
    main()
