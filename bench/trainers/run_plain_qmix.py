"""QMIX as EPyMARL's loop does it, written plainly: one environment, padded episodes, a step of the networks at a time.

PyMARL's sizes: GRU 64, mixer 32, hypernetworks 64, 32 episodes a batch, an update after each episode.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from clock import SEED, course_or_clock
from torch import nn
from torch.nn import functional

from relive import envs

BATCH, KEPT, UNITS, MIXING, HYPER = 32, 5000, 64, 32, 64


class Spread:
    """mpe2's world, with PyMARL's methods."""

    agents, actions, limit = 3, 5, 25

    def __init__(self) -> None:
        from mpe2 import simple_spread_v3

        self._env = simple_spread_v3.parallel_env(max_cycles=self.limit)
        self._env.reset(seed=SEED)
        self._names = list(self._env.agents)

    def reset(self) -> None:
        self._obs, _ = self._env.reset()

    def see(self) -> tuple[Any, Any, Any]:
        obs = np.stack([self._obs[name] for name in self._names])
        return obs, obs.ravel(), np.ones((self.agents, self.actions), np.float32)

    def step(self, actions: Any) -> tuple[float, bool, bool]:
        given = dict(zip(self._names, actions.tolist(), strict=True))
        self._obs, reward, terminated, truncated, _ = self._env.step(given)
        return sum(reward.values()), all(terminated.values()), all(truncated.values())


class Battle:
    """One battle of marines."""

    agents, actions, limit = 4, 10, 60

    def __init__(self) -> None:
        self._env = envs.make("marines_4v4")

    def reset(self) -> None:
        self._seen = self._env.reset()

    def see(self) -> tuple[Any, Any, Any]:
        seen = self._seen
        return seen["obs"][0], seen["state"][0], seen["avail_actions"][0].astype(np.float32)

    def step(self, actions: Any) -> tuple[float, bool, bool]:
        step = self._env.step(actions[None])
        if step.ended[0]:
            self._seen = {name: step.row[f"final_{name}"] for name in self._seen}
        else:
            self._seen = step.obs
        return float(step.row["reward"][0]), bool(step.terminated[0]), bool(step.truncated[0])


def judged(world: Any, act: Callable[[Any, Any, Any], Any], episodes: int = 40) -> float:
    """The mean return of an agent over some episodes."""
    total = 0.0
    for _ in range(episodes):
        world.reset()
        ended = False
        while not ended:
            reward, terminated, truncated = world.step(act(*world.see()))
            total, ended = total + reward / world.agents, terminated or truncated
    return total / episodes


class Agent(nn.Module):
    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.first, self.cell, self.last = nn.Linear(inputs, UNITS), nn.GRUCell(UNITS, UNITS), nn.Linear(UNITS, actions)

    def forward(self, inputs: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = self.cell(functional.relu(self.first(inputs)), state)
        return self.last(state), state


class Mixer(nn.Module):
    def __init__(self, agents: int, state: int) -> None:
        super().__init__()
        self.agents = agents
        self.first = nn.Sequential(nn.Linear(state, HYPER), nn.ReLU(), nn.Linear(HYPER, agents * MIXING))
        self.last = nn.Sequential(nn.Linear(state, HYPER), nn.ReLU(), nn.Linear(HYPER, MIXING))
        self.bias = nn.Linear(state, MIXING)
        self.more = nn.Sequential(nn.Linear(state, MIXING), nn.ReLU(), nn.Linear(MIXING, 1))

    def forward(self, values: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        rows = values.shape[:2]
        state = state.reshape(-1, state.shape[-1])
        first = self.first(state).abs().view(-1, self.agents, MIXING)
        hidden = functional.elu(values.reshape(-1, 1, self.agents) @ first + self.bias(state)[:, None])
        mixed = hidden @ self.last(state).abs()[..., None] + self.more(state)[..., None]
        return mixed.view(*rows)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    random = np.random.default_rng(SEED)
    env = Spread() if sys.argv[1] == "simple_spread" else Battle()
    env.reset()
    obs, state, _ = env.see()
    agents, actions, limit = env.agents, env.actions, env.limit
    memory = {
        "obs": torch.zeros(KEPT, limit + 1, agents, obs.shape[1]),
        "state": torch.zeros(KEPT, limit + 1, len(state)),
        "avail": torch.zeros(KEPT, limit + 1, agents, actions),
        "action": torch.zeros(KEPT, limit + 1, agents, 1, dtype=torch.long),
        "hot": torch.zeros(KEPT, limit + 1, agents, actions),
        "reward": torch.zeros(KEPT, limit + 1),
        "terminated": torch.zeros(KEPT, limit + 1),
        "filled": torch.zeros(KEPT, limit + 1),
    }
    agent = Agent(obs.shape[1] + actions + agents, actions)
    mixer = Mixer(agents, len(state))
    targets = copy.deepcopy((agent, mixer))
    parameters = [*agent.parameters(), *mixer.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=5e-4)
    ids = torch.eye(agents)

    def inputs(batch: Any, t: int) -> torch.Tensor:
        last = torch.zeros_like(batch["hot"][:, 0]) if t == 0 else batch["hot"][:, t - 1]
        rows = batch["obs"][:, t]
        return torch.cat([rows, last, ids.expand(len(rows), -1, -1)], dim=2).flatten(0, 1)

    explore = "--course" in sys.argv  # otherwise all play by chance
    taken = 0

    def judge() -> float:
        memo: dict[str, Any] = {"t": 0}

        def act(obs: Any, _state: Any, avail: Any) -> Any:
            if memo["t"] % limit == 0:
                memo.update(hidden=torch.zeros(agents, UNITS), last=torch.zeros(agents, actions))
            memo["t"] += 1
            seen = torch.cat([torch.from_numpy(np.asarray(obs, np.float32)), memo["last"], ids], dim=1)
            with torch.no_grad():
                values, memo["hidden"] = agent(seen, memo["hidden"])
            best = values.masked_fill(torch.from_numpy(avail) == 0, -1e9).argmax(dim=1)
            memo["last"] = functional.one_hot(best, actions).float()
            return best.numpy()

        return judged(env.__class__(), act)

    clock = course_or_clock(judge, int(sys.argv[2]))

    def unrolled(network: Agent, batch: Any, length: int) -> torch.Tensor:
        hidden, found = torch.zeros(len(batch["obs"]) * agents, UNITS), []
        for t in range(length):
            values, hidden = network(inputs(batch, t), hidden)
            found.append(values.view(-1, agents, actions))
        return torch.stack(found, dim=1)

    def learn(batch: Any) -> None:
        length = int(batch["filled"].sum(dim=1).max())
        batch = {name: values[:, :length] for name, values in batch.items()}
        values = unrolled(agent, batch, length)
        chosen = values[:, :-1].gather(3, batch["action"][:, :-1])[..., 0]
        with torch.no_grad():
            ahead = unrolled(targets[0], batch, length)[:, 1:]
            best = values.detach().clone()
            best[batch["avail"] == 0] = -1e9
            ahead = ahead.gather(3, best[:, 1:].argmax(dim=3, keepdim=True))[..., 0]
            ahead = targets[1](ahead, batch["state"][:, 1:])
            wanted = batch["reward"][:, :-1] + 0.99 * (1 - batch["terminated"][:, :-1]) * ahead
        mask = batch["filled"][:, 1:]
        away = (mixer(chosen, batch["state"][:, :-1]) - wanted) * mask
        optimiser.zero_grad()
        (away.square().sum() / mask.sum()).backward()
        nn.utils.clip_grad_norm_(parameters, 10)
        optimiser.step()

    episodes = 0
    while True:
        env.reset()
        place = episodes % KEPT
        one = {name: values[place : place + 1] for name, values in memory.items()}
        for values in one.values():
            values.zero_()
        hidden, ended = torch.zeros(agents, UNITS), False
        for t in range(limit + 1):
            obs, state, avail = env.see()
            one["obs"][0, t], one["state"][0, t] = torch.from_numpy(obs), torch.from_numpy(state)
            one["avail"][0, t], one["filled"][0, t] = torch.from_numpy(avail), 1
            with torch.no_grad():
                values, hidden = agent(inputs(one, t), hidden)
            if ended:
                break
            action = torch.distributions.Categorical(one["avail"][0, t]).sample()
            if explore:
                best = values.masked_fill(one["avail"][0, t] == 0, -1e9).argmax(dim=1)
                chance = max(1 - 0.95 * taken / 50_000, 0.05)
                action = torch.where(torch.rand(agents) < chance, action, best)
                taken += 1
            reward, terminated, truncated = env.step(action.numpy())
            ended = terminated or truncated
            one["action"][0, t, :, 0], one["reward"][0, t], one["terminated"][0, t] = action, reward, float(terminated)
            one["hot"][0, t] = functional.one_hot(action, actions)
            clock.tick(1)
        episodes += 1
        if episodes >= BATCH:
            drawn = torch.from_numpy(random.choice(min(episodes, KEPT), BATCH, replace=False))
            learn({name: values[drawn] for name, values in memory.items()})
            if episodes % 200 == 0:
                targets[0].load_state_dict(agent.state_dict())
                targets[1].load_state_dict(mixer.state_dict())


if __name__ == "__main__":
    main()
