"""PPO in one file, on the rollout alone.

pip install 'recollect[torch]' gymnasium
python examples/ppo.py --steps 100000
"""

from __future__ import annotations

import argparse
from itertools import pairwise

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import recollect as rc
from recollect.tensors import to_torch

ENVS, LENGTH, EPOCHS, MINIBATCH = 8, 128, 4, 256
GAMMA, LAM, CLIP, LR, ENTROPY = 0.99, 0.95, 0.2, 1e-3, 0.0


def mlp(inputs: int, outputs: int, gain: float) -> nn.Sequential:
    """Two hidden layers, orthogonal weights."""
    layers: list[nn.Module] = []
    for index, (before, after) in enumerate(pairwise((inputs, 64, 64, outputs))):
        layer = nn.Linear(before, after)
        nn.init.orthogonal_(layer.weight, gain if index == 2 else np.sqrt(2))
        nn.init.zeros_(layer.bias)
        layers += [layer] if index == 2 else [layer, nn.Tanh()]
    return nn.Sequential(*layers)


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    torch.manual_seed(asked.seed)

    at_once = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
    envs = gym.make_vec(asked.env, ENVS, vectorization_mode="sync", vector_kwargs=at_once)
    obs_space, actions = envs.single_observation_space, int(envs.single_action_space.n)
    schema = rc.Schema.from_spaces(obs=obs_space, action=envs.single_action_space)
    schema = schema.with_fields(log_prob=rc.Field(), value=rc.Field())
    rollout = rc.Rollout(schema, LENGTH, lanes=ENVS, seed=asked.seed)

    policy, critic = mlp(obs_space.shape[0], actions, gain=0.01), mlp(obs_space.shape[0], 1, gain=1.0)
    parameters = [*policy.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=LR, eps=1e-5)

    returns, recent = np.zeros(ENVS), []
    obs, _ = envs.reset(seed=asked.seed)
    for update in range(asked.steps // (ENVS * LENGTH)):
        for _ in range(LENGTH):
            with torch.no_grad():
                seen = torch.as_tensor(obs)
                choice = Categorical(logits=policy(seen))
                action = choice.sample()
                extras = {"log_prob": choice.log_prob(action).numpy(), "value": critic(seen)[:, 0].numpy()}
            next_obs, reward, terminated, truncated, info = envs.step(action.numpy())
            row = {"obs": obs, "action": action.numpy(), "reward": reward, **extras}
            row |= {"terminated": terminated, "truncated": truncated}
            ended = terminated | truncated
            if ended.any():  # what was really seen at the end, where the next episode has begun already
                final = next_obs.copy()
                final[ended] = np.stack(info["final_obs"][ended])
                row["final_obs"] = final
            rollout.append(**row)
            obs = next_obs
            returns += reward
            recent += returns[ended].tolist()
            returns[ended] = 0

        with torch.no_grad():  # values of what is seen now, and of the ends of truncated episodes
            ahead = critic(torch.as_tensor(rollout.bootstrap(obs=obs)["obs"]))[:, 0]
        rollout.finish(ahead, gamma=GAMMA, lam=LAM, normalize=True)
        scale = max(float(np.std(rollout["returns"])), 1e-4)
        for batch in rollout.epochs(EPOCHS, MINIBATCH):
            rows = to_torch(batch)
            choice = Categorical(logits=policy(rows["obs"]))
            ratio = (choice.log_prob(rows["action"]) - rows["log_prob"]).exp()
            advantage = rows["advantage"]
            gain = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
            value_loss = ((critic(rows["obs"])[:, 0] - rows["returns"]) / scale).square().mean()
            loss = -gain.mean() + 0.5 * value_loss - ENTROPY * choice.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
        rollout.clear()
        if update % 10 == 9:
            steps = (update + 1) * ENVS * LENGTH
            print(f"{steps:,} steps  return {np.mean(recent[-20:]) if recent else 0:.1f}", flush=True)


if __name__ == "__main__":
    main()
