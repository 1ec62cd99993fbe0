"""DQN, PPO and SAC in one file each's worth of plain torch, as CleanRL's scripts go about them."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import torch
from clock import SEED, Clock
from torch import Tensor, nn
from torch.distributions import Categorical, Normal
from torch.nn import functional as F

RNG = np.random.default_rng(SEED)


def layers(*sizes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    parts: list[nn.Module] = []
    for before, after in pairwise(sizes):
        parts += [nn.Linear(before, after), activation()]
    return nn.Sequential(*parts[:-1])


class Ring:
    """Transitions in arrays, the newest over the oldest."""

    def __init__(self, capacity: int, obs: int, action: tuple[int, ...], kind: Any) -> None:
        self._obs, self._next = (np.zeros((capacity, obs), np.float32) for _ in range(2))
        self._action = np.zeros((capacity, *action), kind)
        self._reward, self._end = (np.zeros(capacity, np.float32) for _ in range(2))
        self._capacity, self._at, self._full = capacity, 0, False

    def add(self, obs: Any, after: Any, action: Any, reward: Any, end: Any) -> None:
        at = self._at
        self._obs[at], self._next[at], self._action[at] = obs, after, action
        self._reward[at], self._end[at] = reward, end
        self._at = (at + 1) % self._capacity
        self._full |= self._at == 0

    def sample(self, size: int) -> tuple[Tensor, ...]:
        rows = RNG.integers(0, self._capacity if self._full else self._at, size)
        parts = (self._obs, self._next, self._action, self._reward, self._end)
        return tuple(torch.tensor(part[rows]) for part in parts)


def dqn(env: str, clock: Clock) -> None:
    world = gymnasium.make(env)
    obs_size, choices = world.observation_space.shape[0], world.action_space.n
    online, target = (layers(obs_size, 120, 84, choices) for _ in range(2))
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=2.5e-4)
    ring = Ring(10_000, obs_size, (), np.int64)
    obs, _ = world.reset(seed=SEED)
    for step in range(10**9):
        epsilon = max(0.05, 1.0 - 0.95 * step / 10_000)
        if RNG.random() < epsilon:
            action = world.action_space.sample()
        else:
            action = online(torch.Tensor(obs[None])).argmax(dim=1).numpy()[0]
        after, reward, terminated, truncated, _ = world.step(action)
        ring.add(obs, after, action, reward, terminated)
        obs = world.reset()[0] if terminated or truncated else after
        if step > 1_000 and step % 10 == 0:
            rows, ahead, done, rewards, ends = ring.sample(128)
            with torch.no_grad():
                best = target(ahead).max(dim=1).values
                wanted = rewards + 0.99 * best * (1 - ends)
            loss = F.mse_loss(wanted, online(rows).gather(1, done[:, None])[:, 0])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 500 == 0:
            for mine, theirs in zip(target.parameters(), online.parameters(), strict=True):
                mine.data.copy_(theirs.data)
        clock.tick(1)


def ppo(env: str, envs: int, clock: Clock) -> None:
    worlds = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(env) for _ in range(envs)])
    obs_size, choices = worlds.single_observation_space.shape[0], worlds.single_action_space.n
    policy = layers(obs_size, 64, 64, choices, activation=nn.Tanh)
    critic = layers(obs_size, 64, 64, 1, activation=nn.Tanh)
    every = [*policy.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(every, lr=2.5e-4, eps=1e-5)
    steps = 128
    seen = torch.zeros(steps, envs, obs_size)
    actions, log_probs, rewards, ends, values = (torch.zeros(steps, envs) for _ in range(5))
    obs = torch.Tensor(worlds.reset(seed=SEED)[0])
    ended = torch.zeros(envs)
    while True:
        for step in range(steps):
            seen[step], ends[step] = obs, ended
            with torch.no_grad():
                drawn = Categorical(logits=policy(obs))
                action = drawn.sample()
                values[step] = critic(obs).flatten()
            actions[step], log_probs[step] = action, drawn.log_prob(action)
            after, reward, terminated, truncated, _ = worlds.step(action.numpy())
            rewards[step] = torch.tensor(reward)
            obs, ended = torch.Tensor(after), torch.Tensor(np.logical_or(terminated, truncated))
            clock.tick(envs)
        with torch.no_grad():
            following, last = critic(obs).flatten(), torch.zeros(envs)
            advantages = torch.zeros_like(rewards)
            for step in reversed(range(steps)):
                goes_on = 1 - (ended if step == steps - 1 else ends[step + 1])
                ahead = following if step == steps - 1 else values[step + 1]
                delta = rewards[step] + 0.99 * ahead * goes_on - values[step]
                advantages[step] = last = delta + 0.99 * 0.95 * goes_on * last
            returns = advantages + values
        rows = np.arange(steps * envs)
        flat = [part.flatten(0, 1) for part in (seen, actions, log_probs, advantages, returns, values)]
        for _ in range(4):
            RNG.shuffle(rows)
            for part in np.split(rows, 4):
                o, a, old, advantage, wanted, before = (each[part] for each in flat)
                drawn = Categorical(logits=policy(o))
                ratio = (drawn.log_prob(a) - old).exp()
                with torch.no_grad():
                    ((ratio - 1) - ratio.log()).mean(), ((ratio - 1).abs() > 0.2).float().mean().item()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                loss = torch.max(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.2)).mean()
                value = critic(o).flatten()
                clipped = before + (value - before).clamp(-0.2, 0.2)
                miss = 0.5 * torch.max((value - wanted) ** 2, (clipped - wanted) ** 2).mean()
                loss = loss - 0.01 * drawn.entropy().mean() + 0.5 * miss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(every, 0.5)
                optimizer.step()


def sac(env: str, clock: Clock) -> None:
    world = gymnasium.make(env)
    obs_size, width = world.observation_space.shape[0], world.action_space.shape[0]
    policy = layers(obs_size, 256, 256, 2 * width)
    critics = [layers(obs_size + width, 256, 256, 1) for _ in range(2)]
    targets = [layers(obs_size + width, 256, 256, 1) for _ in range(2)]
    for target, critic in zip(targets, critics, strict=True):
        target.load_state_dict(critic.state_dict())
    policy_optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    critic_optimizer = torch.optim.Adam([p for each in critics for p in each.parameters()], lr=1e-3)
    log_alpha = torch.zeros(1, requires_grad=True)
    alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)

    def act(obs: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = policy(obs).chunk(2, dim=-1)
        spread = -5 + 0.5 * 7 * (spread.tanh() + 1)
        drawn = Normal(mean, spread.exp())
        raw = drawn.rsample()
        action = raw.tanh()
        log_prob = drawn.log_prob(raw) - torch.log(1 - action**2 + 1e-6)
        return action, log_prob.sum(dim=1)

    ring = Ring(1_000_000, obs_size, (width,), np.float32)
    obs, _ = world.reset(seed=SEED)
    for step in range(10**9):
        action = world.action_space.sample()
        if step >= 1_000:
            action = act(torch.Tensor(obs[None]))[0].detach().numpy()[0]
        after, reward, terminated, truncated, _ = world.step(action)
        ring.add(obs, after, action, reward, terminated)
        obs = world.reset()[0] if terminated or truncated else after
        if step > 1_000:
            rows, ahead, done, rewards, ends = ring.sample(256)
            alpha = log_alpha.exp().item()
            with torch.no_grad():
                following, log_prob = act(ahead)
                both = torch.cat([ahead, following], dim=1)
                lower = torch.min(*(target(both)[:, 0] for target in targets))
                wanted = rewards + 0.99 * (1 - ends) * (lower - alpha * log_prob)
            both = torch.cat([rows, done], dim=1)
            loss: Tensor = sum(F.mse_loss(critic(both)[:, 0], wanted) for critic in critics)  # type: ignore[assignment]
            critic_optimizer.zero_grad()
            loss.backward()
            critic_optimizer.step()
            if step % 2 == 0:
                for _ in range(2):
                    drawn, log_prob = act(rows)
                    both = torch.cat([rows, drawn], dim=1)
                    lower = torch.min(*(critic(both)[:, 0] for critic in critics))
                    loss = (alpha * log_prob - lower).mean()
                    policy_optimizer.zero_grad()
                    loss.backward()
                    policy_optimizer.step()
                    with torch.no_grad():
                        _, log_prob = act(rows)
                    alpha_loss = (-log_alpha.exp() * (log_prob - width)).mean()
                    alpha_optimizer.zero_grad()
                    alpha_loss.backward()
                    alpha_optimizer.step()
                    alpha = log_alpha.exp().item()
            for target, critic in zip(targets, critics, strict=True):
                for mine, theirs in zip(target.parameters(), critic.parameters(), strict=True):
                    mine.data.copy_(0.005 * theirs.data + 0.995 * mine.data)
        clock.tick(1)


def main() -> None:
    name, env, envs, warm = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:5])
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    clock = Clock(warm, look_every=20 if name == "sac" else 500)
    if name == "ppo":
        ppo(env, envs, clock)
    elif name == "dqn":
        dqn(env, clock)
    else:
        sac(env, clock)


main()
