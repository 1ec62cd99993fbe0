"""SAC in one file, on the memory alone.

pip install '.[torch]' 'gymnasium[classic-control]'  # in a clone of relive
python examples/sac.py --steps 6000
"""

from __future__ import annotations

import argparse
import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

import relive as rl

BATCH, STARTS = 256, 500
GAMMA, TAU, LR = 0.99, 0.005, 1e-3


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Two hidden layers."""
    return nn.Sequential(nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, outputs))


def draw(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Actions from -1 to 1 and their log-probabilities: tanh of normal numbers."""
    mean, log_std = outputs.chunk(2, dim=1)
    normal = Normal(mean, log_std.clamp(-5, 2).exp())
    before = normal.rsample()
    log_det = 2 * (np.log(2) - before - nn.functional.softplus(-2 * before))  # log(1 - tanh^2), without underflow
    return torch.tanh(before), (normal.log_prob(before) - log_det).sum(dim=1)


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="Pendulum-v1")
    parser.add_argument("--steps", type=int, default=6_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # of networks this small a second thread makes nothing faster

    env = gym.make(args.env)
    obs_space, action_space = env.observation_space, env.action_space
    assert isinstance(obs_space, gym.spaces.Box)
    assert isinstance(action_space, gym.spaces.Box)
    action_space.seed(args.seed)
    low, high = action_space.low, action_space.high
    inputs, width = obs_space.shape[0], action_space.shape[0]
    schema = rl.Schema.from_spaces(obs=obs_space, action=action_space)
    memory = rl.Memory(schema, capacity=100_000, window=rl.Transition(gamma=GAMMA), seed=args.seed)

    policy, critics = mlp(inputs, 2 * width), nn.ModuleList(mlp(inputs + width, 1) for _ in range(2))
    targets = copy.deepcopy(critics).requires_grad_(False)
    log_alpha = torch.zeros((), requires_grad=True)
    actor_optimizer = torch.optim.Adam(policy.parameters(), lr=LR)
    critic_optimizer = torch.optim.Adam(critics.parameters(), lr=LR)
    alpha_optimizer = torch.optim.Adam([log_alpha], lr=LR)

    def min_q(networks: nn.ModuleList, obs: Tensor, action: Tensor) -> Tensor:
        return torch.stack([q(torch.cat([obs, action], dim=1))[:, 0] for q in networks]).amin(dim=0)

    total, recent = 0.0, []
    obs, _ = env.reset(seed=args.seed)
    for step in range(1, args.steps + 1):
        if step <= STARTS:
            action = action_space.sample()
        else:
            with torch.no_grad():
                unit = draw(policy(torch.as_tensor(obs)[None]))[0][0].numpy()
            action = low + (unit + 1) / 2 * (high - low)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        final = {"final_obs": next_obs} if terminated or truncated else {}
        memory.append(obs=obs, action=action, reward=float(reward), terminated=terminated, truncated=truncated, **final)
        obs, total = next_obs, total + float(reward)
        if terminated or truncated:
            recent.append(total)
            total = 0.0
            obs, _ = env.reset()
        if step <= STARTS:
            continue

        batch, alpha = rl.to_torch(memory.sample(BATCH)), log_alpha.detach().exp()
        normalised = 2 * (batch.action - torch.as_tensor(low)) / torch.as_tensor(high - low) - 1
        with torch.no_grad():
            next_action, next_log_prob = draw(policy(batch.next_obs))
            next_q = min_q(targets, batch.next_obs, next_action) - alpha * next_log_prob
            td_target = batch.reward + batch.discount * next_q  # the discount is 0 where it terminated
        inputs_of_q = torch.cat([batch.obs, normalised], dim=1)
        critic_loss = torch.stack([(td_target - q(inputs_of_q)[:, 0]).square().mean() for q in critics]).sum()
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()

        new_action, log_prob = draw(policy(batch.obs))
        actor_loss = (alpha * log_prob - min_q(critics, batch.obs, new_action)).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()

        alpha_loss = -log_alpha * (log_prob.detach() - width).mean()  # entropy is to be minus the number of actions
        alpha_optimizer.zero_grad()
        alpha_loss.backward()
        alpha_optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(targets.parameters(), critics.parameters(), strict=True):
                slow.lerp_(fast, TAU)
        if step % 1_000 == 0 or step == args.steps:
            print(f"{step:,} steps  return {np.mean(recent[-10:]) if recent else 0:.1f}", flush=True)


if __name__ == "__main__":
    main()
