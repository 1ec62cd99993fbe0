"""R2D2 in one file: prioritised sequences with burn-in and stored states, for a task that has to be remembered.

    pip install '.[torch]'  # in a clone of relive
    python examples/r2d2.py

A T-maze: the first observation says which way to turn at the end of a corridor of ten steps. Without memory half of the
turns are right. Sequences are shorter than the corridor, so most of them begin where the sign is out of sight: the
recurrent state that the actor stored has to carry it.
"""

from __future__ import annotations

import argparse
import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import relive as rl

ENVS, CORRIDOR, UNITS = 16, 10, 32
LENGTH, BURN_IN, BATCH, STARTS = 5, 3, 32, 1_000
GAMMA, TAU, LR, EPSILON, ETA = 0.95, 0.02, 2e-3, 0.1, 0.9


class TMaze:
    """Vectorised mazes: every step leads on, the last action is the turn. obs: sign (at first), at the junction."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.sign, self.time = np.zeros(ENVS), np.zeros(ENVS, int)
        self.reset(np.ones(ENVS, bool))

    def reset(self, ended: Any) -> None:
        """Begin where episodes ended."""
        self.sign[ended], self.time[ended] = self.random.choice([-1, 1], ended.sum()), 0

    def obs(self) -> Any:
        """What is seen now, [E, 2]."""
        return np.stack([self.sign * (self.time == 0), self.time == CORRIDOR], axis=1).astype(np.float32)

    def step(self, action: Any) -> tuple[Any, Any]:
        """Reward and terminated; the obs afterwards is ``obs()``."""
        terminated = self.time == CORRIDOR
        reward = terminated * ((action == 1) == (self.sign > 0))
        self.time += 1
        return reward.astype(np.float32), terminated


class RecurrentQ(nn.Module):
    """Q of two actions by a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRUCell(2, UNITS), nn.Linear(UNITS, 2)

    def forward(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Q [B, 2] and the state after what was seen."""
        state = self.gru(obs, state)
        return self.head(state), state


def unroll(q: RecurrentQ, batch: Any) -> Tensor:
    """Q [B, LENGTH + 1, 2] from the stored states on, warmed up by the burn-in."""
    state, values = batch.state, []
    for t in range(BURN_IN + LENGTH + 1):  # what was seen after the last step too
        if t < BURN_IN + LENGTH:
            state = state * ~batch.starts[:, t, None]  # an episode begins here: nothing to remember
        with torch.set_grad_enabled(torch.is_grad_enabled() and t >= BURN_IN):
            found, state = q(batch.obs[:, t], state)
        values.append(found)
    return torch.stack(values[BURN_IN:], dim=1)


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # of networks this small a second thread makes nothing faster
    random = np.random.default_rng(args.seed)

    memory = rl.Memory(
        rl.Schema(obs=rl.Field((2,)), action=rl.Field((), "uint8"), state=rl.Field((UNITS,), role="plain")),
        capacity=32_000,
        lanes=ENVS,
        window=rl.Sequence(LENGTH, burn_in=BURN_IN, start_fields=("state",), gamma=GAMMA),
        sampler=rl.Prioritized(alpha=0.6, beta=0.4),
        seed=args.seed,
    )
    q = RecurrentQ()
    target = copy.deepcopy(q).requires_grad_(False)
    optimizer = torch.optim.Adam(q.parameters(), lr=LR)

    env, state, returns = TMaze(args.seed), torch.zeros(ENVS, UNITS), []
    for step in range(ENVS, args.steps + ENVS, ENVS):
        obs = env.obs()
        with torch.no_grad():
            values, next_state = q(torch.as_tensor(obs), state)
        action = np.where(random.random(ENVS) < EPSILON, random.integers(0, 2, ENVS), values.argmax(dim=1).numpy())
        reward, terminated = env.step(action)
        ends = {"terminated": terminated, "truncated": np.zeros(ENVS, bool), "final_obs": env.obs()}
        memory.append(obs=obs, action=action, reward=reward, state=state, **ends)  # the state before this step
        state = next_state * ~torch.as_tensor(terminated)[:, None]
        returns += reward[terminated].tolist()
        env.reset(terminated)

        if step >= STARTS:
            batch = rl.to_torch(memory.sample(BATCH))
            values = unroll(q, batch)
            chosen_q = values[:, :-1].gather(2, batch.action[:, BURN_IN:, None])[..., 0]
            with torch.no_grad():
                best = values[:, 1:].argmax(dim=2, keepdim=True)
                next_q = unroll(target, batch)[:, 1:].gather(2, best)[..., 0]
                td_target = batch.reward[:, BURN_IN:] + batch.discount[:, BURN_IN:] * next_q
            mask = batch.mask[:, BURN_IN:]  # False after an episode's end
            td_error = (td_target - chosen_q) * mask
            loss = (batch.weights[:, None] * td_error.square()).sum() / mask.sum()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(q.parameters(), 10.0)
            optimizer.step()
            size = td_error.detach().abs()
            memory.update_priorities(batch, ETA * size.amax(dim=1) + (1 - ETA) * size.sum(dim=1) / mask.sum(dim=1))
            with torch.no_grad():
                for slow, fast in zip(target.parameters(), q.parameters(), strict=True):
                    slow.lerp_(fast, TAU)
        if step % 5_000 < ENVS:
            print(f"{step:,} steps  return {np.mean(returns[-200:]):.2f}", flush=True)


if __name__ == "__main__":
    main()
