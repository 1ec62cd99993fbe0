"""The agents of MADDPG codes: networks by their names, and a step of learning that is right."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from relive.errors import OptionError
from relive.learn.polyak import polyak_update

__all__ = ["MADDPG", "Actor", "Critic"]


class Actor(nn.Module):
    """What one agent does, by what it sees: ``[B, obs_shape[agent_id]]`` to ``[B, action_shape[agent_id]]``.

    Args:
        args: Has ``obs_shape``, ``action_shape`` and ``high_action``, which actions go up to.
    """

    def __init__(self, args: Any, agent_id: int) -> None:
        super().__init__()
        self.max_action = args.high_action
        self.fc1 = nn.Linear(args.obs_shape[agent_id], 64)
        self.fc2 = nn.Linear(64, 64)
        self.fc3 = nn.Linear(64, 64)
        self.action_out = nn.Linear(64, args.action_shape[agent_id])

    def forward(self, x: Tensor) -> Tensor:
        """Actions from -high_action to high_action."""
        for layer in (self.fc1, self.fc2, self.fc3):
            x = F.relu(layer(x))
        actions: Tensor = self.max_action * torch.tanh(self.action_out(x))
        return actions


class Critic(nn.Module):
    """What all agents' actions are worth, by what all of them see: lists of ``[B, ...]`` to ``[B, 1]``."""

    def __init__(self, args: Any) -> None:
        super().__init__()
        self.max_action = args.high_action
        self.fc1 = nn.Linear(sum(args.obs_shape) + sum(args.action_shape), 64)
        self.fc2 = nn.Linear(64, 64)
        self.fc3 = nn.Linear(64, 64)
        self.q_out = nn.Linear(64, 1)

    def forward(self, state: Sequence[Tensor], action: Sequence[Tensor]) -> Tensor:
        """Values ``[B, 1]``; the caller's tensors stay as they are."""
        x = torch.cat([*state, *(each / self.max_action for each in action)], dim=1)
        for layer in (self.fc1, self.fc2, self.fc3):
            x = F.relu(layer(x))
        value: Tensor = self.q_out(x)
        return value


class MADDPG:
    """One agent's networks and how it learns.

    It begins with what was saved last in ``save_dir/scenario_name/agent_<id>``, if anything was.

    Args:
        args: Has ``n_agents``, ``obs_shape``, ``action_shape``, ``high_action``, ``lr_actor``, ``lr_critic``,
            ``gamma``, ``tau``, ``save_dir``, ``scenario_name`` and ``save_rate``.
    """

    def __init__(self, args: Any, agent_id: int) -> None:
        self.args, self.agent_id, self.train_step = args, agent_id, 0
        self.actor_network, self.actor_target_network = Actor(args, agent_id), Actor(args, agent_id)
        self.critic_network, self.critic_target_network = Critic(args), Critic(args)
        self.model_path = str(Path(args.save_dir) / args.scenario_name / f"agent_{agent_id}")
        os.makedirs(self.model_path, exist_ok=True)
        if (newest := _newest(Path(self.model_path))) is not None:
            self._load(newest)
        else:
            self._follow(1.0)
        self.actor_optim = torch.optim.Adam(self.actor_network.parameters(), lr=args.lr_actor)
        self.critic_optim = torch.optim.Adam(self.critic_network.parameters(), lr=args.lr_critic)

    def _follow(self, tau: float) -> None:
        polyak_update(self.actor_target_network, self.actor_network, tau)
        polyak_update(self.critic_target_network, self.critic_network, tau)

    def _soft_update_target_network(self) -> None:
        """Move the target networks towards the others by ``tau``."""
        self._follow(self.args.tau)

    def train(self, transitions: Mapping[str, Any], other_agents: Sequence[Any]) -> None:
        """Learn from a batch.

        Args:
            transitions: As ``Buffer.sample`` gives them; with ``done``, nothing follows the steps that it marks.
            other_agents: The others in order; each one's ``policy`` is a ``MADDPG``.
        """
        batch = {key: torch.as_tensor(np.asarray(value), dtype=torch.float32) for key, value in transitions.items()}
        agents = range(self.args.n_agents)
        o, u, o_next = ([batch[f"{name}_{i}"] for i in agents] for name in ("o", "u", "o_next"))
        others = iter(other_agents)
        policies = [self if i == self.agent_id else next(others).policy for i in agents]
        with torch.no_grad():
            u_next = [policy.actor_target_network(seen) for policy, seen in zip(policies, o_next, strict=True)]
            goes_on = 1 - batch["done"][:, self.agent_id, None] if "done" in batch else 1.0
            follows = goes_on * self.critic_target_network(o_next, u_next)
            target = batch[f"r_{self.agent_id}"].unsqueeze(1) + self.args.gamma * follows
        critic_loss = F.mse_loss(self.critic_network(o, u), target)
        self.critic_optim.zero_grad()
        critic_loss.backward()  # type: ignore[no-untyped-call]
        self.critic_optim.step()
        # The critic has changed: the actor's loss needs a fresh forward pass.
        chosen = [self.actor_network(o[i]) if i == self.agent_id else u[i] for i in agents]
        actor_loss = -self.critic_network(o, chosen).mean()
        self.actor_optim.zero_grad()
        actor_loss.backward(inputs=list(self.actor_network.parameters()))
        self.actor_optim.step()
        self._soft_update_target_network()
        if self.train_step > 0 and self.train_step % self.args.save_rate == 0:
            self.save_model(self.train_step)
        self.train_step += 1

    def save_model(self, train_step: int) -> None:
        """Save the two networks, by the number of times that ``save_rate`` steps have passed."""
        number = train_step // self.args.save_rate
        for name, network in (("actor", self.actor_network), ("critic", self.critic_network)):
            path = Path(self.model_path) / f"{number}_{name}_params.pkl"
            torch.save(network.state_dict(), waiting := path.with_suffix(".part"))
            os.replace(waiting, path)

    def load_model(self, path: str) -> None:
        """Go on from what was saved last in a folder; nothing if nothing was."""
        if (newest := _newest(Path(path))) is not None:
            self._load(newest)

    def _load(self, stem: str) -> None:
        for name, network in (("actor", self.actor_network), ("critic", self.critic_network)):
            path = f"{stem}{name}_params.pkl"
            try:
                network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
            except Exception as error:
                rule = f"hold the {name} of agent {self.agent_id}"
                raise OptionError(path, rule, str(error).partition("\n")[0], "Remove it to start again.") from None
        self._follow(1.0)
        print(f"Agent {self.agent_id} goes on from {stem}actor_params.pkl and critic_params.pkl")


def _newest(folder: Path) -> str | None:
    """What the paths of the files saved last begin with."""
    if (folder / "actor_params.pkl").exists():
        return f"{folder}/"
    names = [re.fullmatch(r"(\d+)_critic_params\.pkl", path.name) for path in folder.glob("*_critic_params.pkl")]
    numbers = [int(found[1]) for found in names if found and (folder / f"{found[1]}_actor_params.pkl").exists()]
    return f"{folder}/{max(numbers)}_" if numbers else None
