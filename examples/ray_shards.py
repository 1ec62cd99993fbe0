"""Shards on a Ray cluster: a memory in two processes, which remote actors fill and a learner draws from (DQN).

pip install '.[torch,ray]' gymnasium  # in a clone of relive
python examples/ray_shards.py                      # a cluster of this machine alone
python examples/ray_shards.py --cluster HOST:6379  # or one that there is
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import ray
import torch
from torch import nn

import relive as rl

BATCH, STARTS, EVERY, BLOCK, PUBLISH = 64, 500, 2, 25, 50
GAMMA, TAU, LR = 0.99, 0.01, 1e-3


def make_q() -> nn.Sequential:
    """Q of CartPole's two actions."""
    return nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))


class Server:
    """What learner and actors tell each other: weights one way, returns of episodes the other."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        self.weights, self.returns = weights, [0.0]

    def publish(self, weights: dict[str, torch.Tensor]) -> float:
        """Take new weights; the mean return of the last 20 episodes."""
        self.weights = weights
        return float(np.mean(self.returns[-20:]))

    def report(self, returns: list[float]) -> dict[str, torch.Tensor]:
        """Take returns of episodes that ended; the newest weights."""
        self.returns += returns
        return self.weights


class Actor:
    """An environment and a writer of one lane; Ray runs it in a process of its own, wherever there is room."""

    def __init__(self, cluster: rl.distributed.Shards, server: Any, lane: int) -> None:
        torch.set_num_threads(1)
        self.server, self.lane, self.q = server, lane, make_q()
        self.writer = cluster.writer(lane, block=BLOCK)

    def run(self) -> None:
        """Act for ever."""
        env, random = gym.make("CartPole-v1"), np.random.default_rng(self.lane)
        obs, _ = env.reset(seed=self.lane)
        returns = [0.0]
        for step in itertools.count():
            if step % BLOCK == 0:
                self.q.load_state_dict(ray.get(self.server.report.remote(returns[:-1])))
                returns = returns[-1:]
            with torch.no_grad():
                action = int(self.q(torch.as_tensor(obs)).argmax())
            if random.random() < max(0.05, 1 - step / 5_000):
                action = int(random.integers(2))
            next_obs, reward, terminated, truncated, _ = env.step(action)
            ends = {"terminated": terminated, "truncated": truncated, "final_obs": next_obs}
            self.writer.append(obs=obs, action=action, reward=reward, **ends)  # waits while the learner is behind
            obs, returns[-1] = next_obs, returns[-1] + float(reward)
            if terminated or truncated:
                obs, _ = env.reset()
                returns.append(0.0)


def update(q: nn.Module, target: nn.Module, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
    """One step of double Q-learning; the TD errors of the batch."""
    with torch.no_grad():
        best = q(batch.next_obs).argmax(dim=1, keepdim=True)
        td_target = batch.reward + batch.discount * target(batch.next_obs).gather(1, best)[:, 0]
    td_error = td_target - q(batch.obs).gather(1, batch.action[:, None])[:, 0]
    loss = (batch.weights * nn.functional.huber_loss(td_error, torch.zeros_like(td_error), reduction="none")).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(q.parameters(), 10.0)
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), q.parameters(), strict=True):
            slow.lerp_(fast, TAU)
    errors: torch.Tensor = td_error.detach()
    return errors


def main() -> None:
    """Start shards and actors, learn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--cluster", default="local")
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    rl.distributed.connect(args.cluster, **({"num_cpus": 2} if args.cluster == "local" else {}))

    q, target = make_q(), make_q().requires_grad_(False)
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=LR)
    schema = rl.Schema(obs=rl.Field((4,)), action=rl.Field((), "uint8"))
    with rl.distributed.Shards(
        schema,
        100_000,
        shards=2,
        lanes=2,
        sampler=rl.Prioritized(0.6, beta=0.4),
        window=rl.NStep(3, gamma=GAMMA),
        limiter=rl.distributed.Ratio(BATCH / EVERY, min_size=STARTS),  # samples for each step, whoever is faster
    ) as cluster:
        server = ray.remote(num_cpus=0)(Server).remote(q.state_dict())
        actors = [ray.remote(num_cpus=0)(Actor).remote(cluster, server, lane) for lane in range(2)]
        acting = [actor.run.remote() for actor in actors]
        with cluster.learner(BATCH, ahead=2, group=8, timeout=60) as batches:
            for number in range(1, (args.steps - STARTS) // EVERY + 1):
                batch = next(batches)  # one prioritised distribution over both shards; waits for actors that are behind
                batches.update_priorities(batch, update(q, target, optimizer, rl.to_torch(batch)))
                if number % PUBLISH == 0:
                    recent = ray.get(server.publish.remote(q.state_dict()))
                    if failed := ray.wait(acting, timeout=0)[0]:
                        ray.get(failed)  # raises what an actor raised
                    if number % 1_000 == 0:
                        print(f"{number:,} updates  return {recent:.1f}", flush=True)
        state = cluster.state()
        held = " and ".join(str(shard["steps"]) for shard in state["shards"])
        print(f"{state['inserted']:,} steps inserted, {state['sampled']:,} samples drawn; shards hold {held}")


if __name__ == "__main__":
    main()
