"""MAPPO as EPyMARL's loop does it, written plainly: whole episodes, padded, and a step of the policies at a time.

Ten environments take turns (EPyMARL has them in processes, whose CPU time would count). Policies and critics have two
hidden layers of 64 units; returns of five steps come from a target critic; every epoch computes all of it again.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

import numpy as np
import torch
from clock import SEED, course_or_clock
from run_plain_qmix import Battle, Spread, judged
from torch import nn

GAMMA, STEPS, CLIP, ENTROPY, TAU, UNITS = 0.99, 5, 0.2, 1e-3, 0.01, 64


def perceptron(inputs: int, outputs: int) -> nn.Module:
    layers = [nn.Linear(inputs, UNITS), nn.ReLU(), nn.Linear(UNITS, UNITS), nn.ReLU(), nn.Linear(UNITS, outputs)]
    return nn.Sequential(*layers)


def returns_of(reward: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Returns of some steps and the value after them, one start after the other."""
    found = torch.zeros_like(value[:, :-1])
    length = reward.shape[1]
    for start in range(length):
        total = torch.zeros_like(value[:, 0])
        for step in range(STEPS + 1):
            t = start + step
            if t >= length:
                break
            if step == STEPS:
                total += GAMMA**step * value[:, t] * mask[:, t]
            elif t == length - 1:
                total += GAMMA**step * reward[:, t] * mask[:, t] + GAMMA ** (step + 1) * value[:, t + 1]
            else:
                total += GAMMA**step * reward[:, t] * mask[:, t]
        found[:, start] = total
    return found


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    name, count, epochs, warm = sys.argv[1], *map(int, sys.argv[2:5])
    worlds: list[Any] = [Spread() if name == "simple_spread" else Battle() for _ in range(count)]
    for world in worlds:
        world.reset()
    obs, state, _ = worlds[0].see()
    agents, actions, limit = worlds[0].agents, worlds[0].actions, worlds[0].limit
    policy, critic = perceptron(obs.shape[1] + agents, actions), perceptron(len(state) + agents, 1)
    target = copy.deepcopy(critic)
    optimisers = [torch.optim.Adam(network.parameters(), lr=3e-4) for network in (policy, critic)]
    ids = torch.eye(agents)

    def logits(obs: torch.Tensor, avail: torch.Tensor) -> torch.Tensor:
        found = policy(torch.cat([obs, ids.expand(len(obs), -1, -1)], dim=2))
        return found.masked_fill(avail == 0, -1e10)

    def judge() -> float:
        def act(obs: Any, _state: Any, avail: Any) -> Any:
            seen = (torch.from_numpy(np.asarray(part, np.float32))[None] for part in (obs, avail))
            with torch.no_grad():
                return logits(*seen)[0].argmax(dim=1).numpy()

        return judged(worlds[0].__class__(), act)

    clock = course_or_clock(judge, warm)

    def values(network: nn.Module, state: torch.Tensor) -> torch.Tensor:
        every = state[:, :, None].expand(-1, -1, agents, -1)
        return network(torch.cat([every, ids.expand(*every.shape[:2], -1, -1)], dim=3))[..., 0]

    def step(which: int, network: nn.Module, loss: torch.Tensor) -> None:
        optimisers[which].zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 10)
        optimisers[which].step()

    while True:
        batch = {
            "obs": torch.zeros(count, limit + 1, agents, obs.shape[1]),
            "state": torch.zeros(count, limit + 1, len(state)),
            "avail": torch.ones(count, limit + 1, agents, actions),
            "action": torch.zeros(count, limit, agents, 1, dtype=torch.long),
            "reward": torch.zeros(count, limit, 1),
            "mask": torch.zeros(count, limit, 1),
        }
        ended = [False] * count
        for world in worlds:
            world.reset()
        for t in range(limit + 1):
            going = [i for i in range(count) if not ended[i]]
            for i in going:
                seen = worlds[i].see()
                for key, value in zip(("obs", "state", "avail"), seen, strict=True):
                    batch[key][i, t] = torch.from_numpy(np.asarray(value, np.float32))
            if t == limit or not going:
                break
            with torch.no_grad():
                chosen = torch.distributions.Categorical(
                    logits=logits(batch["obs"][:, t], batch["avail"][:, t])
                ).sample()
            for i in going:
                reward, terminated, truncated = worlds[i].step(chosen[i].numpy())
                batch["action"][i, t, :, 0], batch["reward"][i, t, 0], batch["mask"][i, t, 0] = chosen[i], reward, 1
                ended[i] = terminated or truncated
                if ended[i]:
                    for key, value in zip(("obs", "state", "avail"), worlds[i].see(), strict=True):
                        batch[key][i, t + 1] = torch.from_numpy(np.asarray(value, np.float32))
            clock.tick(len(going))
        mask = batch["mask"].expand(-1, -1, agents)
        reward = batch["reward"].expand(-1, -1, agents)

        def log_probs(batch: Any = batch) -> torch.Tensor:
            steps = [logits(batch["obs"][:, t], batch["avail"][:, t]) for t in range(limit)]
            return torch.log_softmax(torch.stack(steps, dim=1), dim=3)

        with torch.no_grad():
            old = log_probs().gather(3, batch["action"])[..., 0]
        for _ in range(epochs):
            every = log_probs()
            with torch.no_grad():
                wanted = returns_of(reward, values(target, batch["state"]), mask)
            td_error = (wanted - values(critic, batch["state"])[:, :-1]) * mask
            step(1, critic, td_error.square().sum() / mask.sum())
            ratio = (every.gather(3, batch["action"])[..., 0] - old).exp()
            advantage = td_error.detach()
            gain = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
            entropy = -(every.exp() * every).sum(dim=3)
            step(0, policy, -((gain + ENTROPY * entropy) * mask).sum() / mask.sum())
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), critic.parameters(), strict=True):
                slow.mul_(1 - TAU).add_(fast * TAU)


if __name__ == "__main__":
    main()
