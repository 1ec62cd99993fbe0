"""PPO in one file, on the rollout alone.

pip install '.[torch]' gymnasium  # in a clone of relive
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

import relive as rl

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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # of networks this small a second thread makes nothing faster

    same_step = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}  # resets at once, final_obs is in info
    envs = gym.make_vec(args.env, ENVS, vectorization_mode="sync", vector_kwargs=same_step)
    obs_space, action_space = envs.single_observation_space, envs.single_action_space
    assert isinstance(obs_space, gym.spaces.Box)
    assert isinstance(action_space, gym.spaces.Discrete)
    schema = rl.Schema.from_spaces(obs=obs_space, action=action_space)
    schema = schema.with_fields(log_prob=rl.Field(), value=rl.Field())
    rollout = rl.Rollout(schema, LENGTH, lanes=ENVS, seed=args.seed)

    inputs, actions = obs_space.shape[0], int(action_space.n)
    policy, critic = mlp(inputs, actions, gain=0.01), mlp(inputs, 1, gain=1.0)
    parameters = [*policy.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=LR, eps=1e-5)

    returns, recent = np.zeros(ENVS), []
    obs, _ = envs.reset(seed=args.seed)
    updates = args.steps // (ENVS * LENGTH)
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = LR * (1 - update / updates)
        for _ in range(LENGTH):
            with torch.no_grad():
                policy_now = Categorical(logits=policy(torch.as_tensor(obs)))
                action = policy_now.sample()
                log_prob, value = policy_now.log_prob(action), critic(torch.as_tensor(obs))[:, 0]
            next_obs, reward, terminated, truncated, info = envs.step(action.numpy())
            rollout.append(
                obs=obs,
                action=action,
                log_prob=log_prob,
                value=value,
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

        with torch.no_grad():  # values of what is seen now, and of the ends of truncated episodes
            next_value = critic(torch.as_tensor(rollout.bootstrap(obs=obs)["obs"]))[:, 0]
        rollout.finish(next_value, gamma=GAMMA, lam=LAM, normalize=True)
        scale = max(float(np.std(rollout["returns"])), 1e-4)
        for batch in map(rl.to_torch, rollout.epochs(EPOCHS, MINIBATCH)):
            policy_now = Categorical(logits=policy(batch.obs))
            ratio = (policy_now.log_prob(batch.action) - batch.log_prob).exp()
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            surrogate = torch.minimum(ratio * batch.advantage, clipped * batch.advantage)
            value_loss = ((critic(batch.obs)[:, 0] - batch.returns) / scale).square().mean()
            loss = -surrogate.mean() + 0.5 * value_loss - ENTROPY * policy_now.entropy().mean()
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
