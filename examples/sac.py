"""SAC in one file, on the memory alone.

pip install 'recollect[torch]' 'gymnasium[classic-control]'
python examples/sac.py --steps 20000
"""

from __future__ import annotations

import argparse
import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

import recollect as rc
from recollect.tensors import to_torch

BATCH, STARTS = 256, 1_000
GAMMA, TAU, LR = 0.99, 0.005, 1e-3


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Two hidden layers."""
    return nn.Sequential(nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, outputs))


def draw(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Actions from -1 to 1 and their log-probabilities: tanh of normal numbers."""
    mean, log_std = outputs.chunk(2, dim=1)
    normal = Normal(mean, log_std.clamp(-5, 2).exp())
    before = normal.rsample()
    slope = 2 * (np.log(2) - before - nn.functional.softplus(-2 * before))  # log(1 - tanh^2), without underflow
    return torch.tanh(before), (normal.log_prob(before) - slope).sum(dim=1)


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--env", default="Pendulum-v1")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    torch.manual_seed(asked.seed)

    env = gym.make(asked.env)
    env.action_space.seed(asked.seed)
    low, high = env.action_space.low, env.action_space.high
    inputs, width = env.observation_space.shape[0], env.action_space.shape[0]
    schema = rc.Schema.from_spaces(obs=env.observation_space, action=env.action_space)
    memory = rc.Memory(schema, capacity=100_000, window=rc.Transition(gamma=GAMMA), seed=asked.seed)

    policy, critics = mlp(inputs, 2 * width), nn.ModuleList(mlp(inputs + width, 1) for _ in range(2))
    targets = copy.deepcopy(critics).requires_grad_(False)
    log_alpha = torch.zeros((), requires_grad=True)
    actor_step = torch.optim.Adam(policy.parameters(), lr=LR)
    critic_step = torch.optim.Adam(critics.parameters(), lr=LR)
    alpha_step = torch.optim.Adam([log_alpha], lr=LR)

    def lowest(networks: nn.ModuleList, obs: Tensor, action: Tensor) -> Tensor:
        both = [network(torch.cat([obs, action], dim=1))[:, 0] for network in networks]
        return torch.minimum(*both)

    total, recent = 0.0, []
    obs, _ = env.reset(seed=asked.seed)
    for step in range(1, asked.steps + 1):
        if step <= STARTS:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                unit = draw(policy(torch.as_tensor(obs)[None]))[0][0].numpy()
            action = low + (unit + 1) / 2 * (high - low)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        final = {"final_obs": next_obs} if terminated or truncated else {}
        memory.append(obs=obs, action=action, reward=reward, terminated=terminated, truncated=truncated, **final)
        obs, total = next_obs, total + float(reward)
        if terminated or truncated:
            recent.append(total)
            total = 0.0
            obs, _ = env.reset()
        if step <= STARTS:
            continue

        rows, alpha = to_torch(memory.sample(BATCH)), log_alpha.detach().exp()
        done = 2 * (rows["action"] - torch.as_tensor(low)) / torch.as_tensor(high - low) - 1
        with torch.no_grad():
            next_action, next_log_prob = draw(policy(rows["next_obs"]))
            next_value = lowest(targets, rows["next_obs"], next_action) - alpha * next_log_prob
            td_target = rows["reward"] + rows["discount"] * next_value  # the discount is 0 where it terminated
        whole = torch.cat([rows["obs"], done], dim=1)
        critic_loss = sum((td_target - network(whole)[:, 0]).square().mean() for network in critics)
        critic_step.zero_grad()
        critic_loss.backward()
        critic_step.step()

        own, log_prob = draw(policy(rows["obs"]))
        actor_loss = (alpha * log_prob - lowest(critics, rows["obs"], own)).mean()
        actor_step.zero_grad()
        actor_loss.backward()
        actor_step.step()

        alpha_loss = -log_alpha * (log_prob.detach() - width).mean()  # entropy is to be minus the number of actions
        alpha_step.zero_grad()
        alpha_loss.backward()
        alpha_step.step()
        with torch.no_grad():
            for slow, fast in zip(targets.parameters(), critics.parameters(), strict=True):
                slow.lerp_(fast, TAU)
        if step % 2_000 == 0:
            print(f"{step:,} steps  return {np.mean(recent[-10:]) if recent else 0:.1f}", flush=True)


if __name__ == "__main__":
    main()
