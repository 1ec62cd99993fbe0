"""Hindsight in a loop of one's own: DQN flips 12 bits to a desired goal, rewarded only when all of them are right.

pip install '.[torch]'  # in a clone of relive
python examples/hindsight.py                # reaches every goal
python examples/hindsight.py --no-hindsight  # reaches none
"""

from __future__ import annotations

import argparse
import copy
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import relive as rl

ENVS, BITS, BATCH, STARTS = 8, 12, 128, 500
GAMMA, TAU, LR, EPSILON = 0.98, 0.05, 1e-3, 0.1


class BitFlip:
    """Vectorised environments of Gymnasium's goals: an action flips a bit, a step costs 1 until all are as desired."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.bits, self.goal = self.random.integers(0, 2, (2, ENVS, BITS)).astype(np.float32)
        self.time = np.zeros(ENVS, int)

    def obs(self) -> dict[str, Any]:
        """What is achieved, and what is desired."""
        return {"achieved_goal": self.bits.copy(), "desired_goal": self.goal.copy()}

    def step(self, action: Any) -> tuple[dict[str, Any], Any, Any, Any]:
        """What is seen after the step, reward, terminated, truncated."""
        self.bits[np.arange(ENVS), action] = 1 - self.bits[np.arange(ENVS), action]
        self.time += 1
        terminated = reached(self.bits, self.goal)
        truncated = (self.time >= BITS) & ~terminated
        return self.obs(), reward_of(self.bits, self.goal), terminated, truncated

    def reset(self, ended: Any) -> dict[str, Any]:
        """Begin where episodes ended."""
        fresh = self.random.integers(0, 2, (2, ENVS, BITS))
        self.bits[ended], self.goal[ended], self.time[ended] = fresh[0, ended], fresh[1, ended], 0
        return self.obs()


def reached(achieved: Any, desired: Any) -> Any:
    """Whether goals are achieved, [B]."""
    return (achieved == desired).all(axis=1)


def reward_of(achieved: Any, desired: Any) -> Any:
    """0 where a goal is achieved, else -1, [B]."""
    return reached(achieved, desired) - 1.0


def inputs_of(obs: Any) -> torch.Tensor:
    """Bits and goal side by side, as the network takes them."""
    return torch.cat([torch.as_tensor(obs["achieved_goal"]), torch.as_tensor(obs["desired_goal"])], dim=1)


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--hindsight", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # of networks this small a second thread makes nothing faster
    random = np.random.default_rng(args.seed)

    # Four of five transitions are read as if a goal had been meant that was achieved later in the same episode.
    window: Any = rl.Hindsight("future", k=4, reward=reward_of, terminated=reached, gamma=GAMMA)
    goal = rl.Field((BITS,))
    memory = rl.Memory(
        rl.Schema(obs={"achieved_goal": goal, "desired_goal": goal}, action=rl.Field((), "uint8")),
        capacity=100_000,
        lanes=ENVS,
        window=window if args.hindsight else rl.Transition(gamma=GAMMA),
        seed=args.seed,
    )

    q = nn.Sequential(nn.Linear(2 * BITS, 256), nn.ReLU(), nn.Linear(256, BITS))
    target = copy.deepcopy(q).requires_grad_(False)
    optimizer = torch.optim.Adam(q.parameters(), lr=LR)

    env, successes = BitFlip(args.seed), []
    obs = env.obs()
    for step in range(ENVS, args.steps + ENVS, ENVS):
        with torch.no_grad():
            action = q(inputs_of(obs)).argmax(dim=1).numpy()
        action = np.where(random.random(ENVS) < EPSILON, random.integers(0, BITS, ENVS), action)
        next_obs, reward, terminated, truncated = env.step(action)
        ends = {"terminated": terminated, "truncated": truncated, "final_obs": next_obs}
        memory.append(obs=obs, action=action, reward=reward, **ends)
        ended = terminated | truncated
        successes += terminated[ended].tolist()
        obs = env.reset(ended) if ended.any() else next_obs

        for _ in range(ENVS // 4 if step >= STARTS else 0):
            batch = rl.to_torch(memory.sample(BATCH))
            with torch.no_grad():
                best = q(inputs_of(batch.next_obs)).argmax(dim=1, keepdim=True)
                next_q = target(inputs_of(batch.next_obs)).gather(1, best)[:, 0]
                td_target = batch.reward + batch.discount * next_q
            chosen_q = q(inputs_of(batch.obs)).gather(1, batch.action[:, None])[:, 0]
            loss = F.smooth_l1_loss(chosen_q, td_target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(target.parameters(), q.parameters(), strict=True):
                    slow.lerp_(fast, TAU)
        if step % 2_000 < ENVS:
            print(f"{step:,} steps  success {np.mean(successes[-200:]):.2f}", flush=True)


if __name__ == "__main__":
    main()
