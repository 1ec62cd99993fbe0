"""DQN in one file, on the memory alone: double Q-learning with prioritised replay of 3-step transitions.

pip install '.[torch]' gymnasium  # in a clone of relive
python examples/dqn.py --steps 50000
"""

from __future__ import annotations

import argparse
import copy
from itertools import pairwise

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import relive as rl

ENVS, BATCH, STARTS, EVERY = 4, 64, 1_000, 2
GAMMA, TAU, LR = 0.99, 0.01, 1e-3


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # of networks this small a second thread makes nothing faster
    random = np.random.default_rng(args.seed)

    same_step = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}  # resets at once, final_obs is in info
    envs = gym.make_vec(args.env, ENVS, vectorization_mode="sync", vector_kwargs=same_step)
    obs_space, action_space = envs.single_observation_space, envs.single_action_space
    assert isinstance(obs_space, gym.spaces.Box)
    assert isinstance(action_space, gym.spaces.Discrete)
    memory = rl.Memory(
        rl.Schema.from_spaces(obs=obs_space, action=action_space),
        capacity=100_000,
        lanes=ENVS,
        window=rl.NStep(3, gamma=GAMMA),
        sampler=rl.Prioritized(alpha=0.6, beta=rl.LinearSchedule(0.4, 1.0, steps=args.steps // EVERY)),
        seed=args.seed,
    )

    sizes = (obs_space.shape[0], 128, 128)
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    q = nn.Sequential(*layers, nn.Linear(sizes[-1], int(action_space.n)))
    target = copy.deepcopy(q).requires_grad_(False)
    optimizer = torch.optim.Adam(q.parameters(), lr=LR)

    returns, recent = np.zeros(ENVS), []
    obs, _ = envs.reset(seed=args.seed)
    for step in range(ENVS, args.steps + ENVS, ENVS):
        epsilon = max(0.05, 1 - step / 10_000)
        with torch.no_grad():
            action = q(torch.as_tensor(obs)).argmax(dim=1).numpy()
        action = np.where(random.random(ENVS) < epsilon, random.integers(0, action_space.n, ENVS), action)
        next_obs, reward, terminated, truncated, info = envs.step(action)

        memory.append(
            obs=obs,
            action=action,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            # next_obs is the next episode's first one already where one ended
            final_obs=info.get("final_obs"),
        )
        obs, ended = next_obs, terminated | truncated

        returns += reward
        recent += returns[ended].tolist()
        returns[ended] = 0

        for _ in range(ENVS // EVERY if step >= STARTS else 0):
            batch = rl.to_torch(memory.sample(BATCH))
            with torch.no_grad():
                best = q(batch.next_obs).argmax(dim=1, keepdim=True)
                next_q = target(batch.next_obs).gather(1, best)[:, 0]
                td_target = batch.reward + batch.discount * next_q  # the discount is 0 where it terminated
            chosen_q = q(batch.obs).gather(1, batch.action[:, None])[:, 0]
            td_error = td_target - chosen_q
            loss = (batch.weights * F.smooth_l1_loss(chosen_q, td_target, reduction="none")).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(q.parameters(), 10.0)
            optimizer.step()
            memory.update_priorities(batch, td_error.detach())
            with torch.no_grad():
                for slow, fast in zip(target.parameters(), q.parameters(), strict=True):
                    slow.lerp_(fast, TAU)
        if step % 5_000 < ENVS:
            print(f"{step:,} steps  return {np.mean(recent[-20:]) if recent else 0:.1f}", flush=True)


if __name__ == "__main__":
    main()
