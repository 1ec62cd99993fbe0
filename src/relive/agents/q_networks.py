"""Q-networks of a group of agents over whole episodes: what they read, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from relive.envs.interface import AgentGroup
from relive.errors import OptionError
from relive.learn.encoders import EncoderFactory
from relive.learn.factories import NetworkFactory, custom_network
from relive.learn.networks import StackedGRU, StackedMLP
from relive.learn.policies import Encoders
from relive.learn.sequences import PackedEpisodes, trim_inactive
from relive.tensors import map_tensors

__all__ = ["AgentSequence", "QNetworks"]


@final
@dataclass(slots=True)
class AgentSequence:
    """A group's part of a batch of packed episodes: ``R`` observations, ``S`` steps.

    Networks that all agents share read rows ``[R * A]``; dead agents' are left out if they are recurrent.
    """

    obs: Any
    """``[rows, ...]``."""
    last_action: Tensor
    """What was done before, ``[rows]``; -1 at first."""
    agent: Tensor
    """Whose row it is, ``[rows]``."""
    take: Tensor | None
    """Where rows belong among ``[R * A]``; None: they are all of them in order."""
    batch_sizes: list[int]
    action: Tensor
    """``[S, A]``."""
    chosen: Tensor
    """Where values of these actions are among values ``[R, A, n]`` laid flat, ``[S, A]``."""
    agent_mask: Tensor | None
    """``[R, A]``."""
    action_mask: Tensor | None
    """``[R, A, n]``."""
    inputs: Tensor | None = None
    """What networks read, where their encoders learn nothing."""

    def alive(self, places: Tensor) -> Tensor:
        """Who is alive at some observations ``[S]``, as numbers ``[S, A]``."""
        if self.agent_mask is None:
            return torch.ones(self.action.shape, device=self.action.device)
        return self.agent_mask.index_select(0, places).float()

    def q_of(self, q: Tensor, action: Tensor) -> Tensor:
        """Values of some actions at every observation ``[R, A]``, of values ``[R, A, n]``; 0 for the dead."""
        value = q.gather(2, action[..., None])[..., 0]
        return value if self.agent_mask is None else value * self.agent_mask

    def chosen_q(self, q: Tensor, before: Tensor) -> Tensor:
        """Values of what was done ``[S, A]``, of values ``[R, A, n]``; 0 for the dead."""
        chosen = q.take(self.chosen)
        return chosen if self.agent_mask is None else chosen * self.agent_mask.index_select(0, before)


@final
class QNetworks(nn.Module):
    """Values of every action for the agents of one group, by one network or one each.

    Args:
        recurrent: Whether the default network is recurrent.
        network: Makes a network of one's own, from its inputs and outputs. It is recurrent if it has a ``state_size``;
            then it is called with packed sequences ``[R, n]``, ``batch_sizes`` and states ``[S, state_size]``, and
            returns values and last states.
        masked: Whether dead agents stop learning.
    """

    _one_hot_action: Tensor
    _one_hot_agent: Tensor

    def __init__(
        self,
        group: AgentGroup,
        *,
        hidden: int,
        recurrent: bool,
        shared: bool,
        last_action: bool,
        agent_id: bool,
        encoder: EncoderFactory | None,
        network: NetworkFactory | None,
        masked: bool,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        if not isinstance(group.action_space, spaces.Discrete):
            remedy = "QMIX chooses among actions; MADDPG learns continuous ones."
            raise OptionError("action space", "be Discrete", group.action_space, remedy)
        self.group, self._masked = group, masked and group.mask
        self.agents, self.choices = len(group), int(group.action_space.n)
        self.start = int(group.action_space.start)
        self.shared = shared
        count = 1 if shared else self.agents
        self.encoders = Encoders(count, group.obs_space, encoder)
        self._ids = agent_id and shared and self.agents > 1
        self._last_action = last_action
        extra = (self.choices if last_action else 0) + (self.agents if self._ids else 0)
        inputs = self.encoders.features + extra
        self.networks: nn.Module
        if network is not None:
            self.networks = _Own(count, lambda: custom_network(network, inputs, self.choices))
        elif recurrent:
            self.networks = StackedGRU(count, inputs=inputs, units=hidden, outputs=self.choices, generator=generator)
        else:
            self.networks = StackedMLP(count, (inputs, hidden, hidden, self.choices), generator=generator)
        self.state_size = int(getattr(self.networks, "state_size", 0))
        """Numbers of a recurrent state; 0: there is none."""
        self.register_buffer("_one_hot_action", _one_hots(self.choices), persistent=False)  # -1, the first: all zeros
        self.register_buffer("_one_hot_agent", torch.eye(self.agents), persistent=False)

    # ---- acting ----------------------------------------------------------------------------------------------------

    def initial_state(self, num_envs: int) -> Tensor:
        """Recurrent states before the first step, ``[1, E * A, size]`` or ``[A, E, size]``."""
        rows = (1, num_envs * self.agents) if self.shared else (self.agents, num_envs)
        return self._one_hot_agent.new_zeros(*rows, self.state_size)

    def packed_state(self, state: Tensor) -> Tensor:
        """States ``[E, A, size]`` as ``step`` takes them."""
        if not self.state_size:
            return state
        return state.reshape(1, -1, self.state_size) if self.shared else state.transpose(0, 1)

    def unpacked_state(self, state: Tensor, num_envs: int) -> Tensor:
        """States as ``step`` gives them, as ``[E, A, size]``."""
        return state.reshape(num_envs, self.agents, self.state_size) if self.shared else state.transpose(0, 1)

    def reset_state(self, state: Tensor, mask: Tensor) -> None:
        """Reset the recurrent states where episodes ended, ``[E]``."""
        if not self.state_size:
            return
        if self.shared:
            state.view(len(mask), self.agents, -1)[mask] = 0
        else:
            state[:, mask] = 0

    def step(self, obs: Any, last_action: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Values ``[E, A, n]`` of observations ``[E, A, ...]`` and actions before ``[E, A]``, and the states after."""
        envs = last_action.shape[0]  # len() would make it a constant for torch.export
        agent = torch.arange(self.agents, device=last_action.device).repeat(envs)
        inputs = self._inputs(map_tensors(lambda x: x.flatten(0, 1), obs), last_action.flatten(), agent)
        q, state = self._run(inputs, [inputs.shape[1]], state)
        return (q.view(envs, self.agents, -1) if self.shared else q.transpose(0, 1)), state

    def to_env(self, action: Tensor) -> Any:
        """Actions as the environment counts them."""
        return action.cpu().numpy() + self.start

    # ---- learning --------------------------------------------------------------------------------------------------

    def read(self, batch: Mapping[str, Any], arrays: Mapping[str, Any], packed: PackedEpisodes) -> AgentSequence:
        """This group's part of a batch of episodes, as tensors and as arrays."""
        fields = batch[self.group.name] if self.group.name else batch
        device = self._one_hot_agent.device
        obs_rows = torch.from_numpy(packed.obs).to(device)
        action = fields["action"].index_select(0, torch.from_numpy(packed.steps).to(device)) - self.start
        last = action.new_full((len(packed.obs), self.agents), -1)
        last[torch.from_numpy(packed.after).to(device)] = action
        agent_mask = fields["agent_mask"].index_select(0, obs_rows) if self._masked else None
        action_mask = fields["avail_actions"].index_select(0, obs_rows) if self.group.avail else None
        agents = np.arange(self.agents)
        places = (packed.before[:, None] * self.agents + agents) * self.choices
        chosen = torch.from_numpy(places).to(device) + action
        rows = (packed.obs[:, None] * self.agents + agents).ravel()
        whose, last = np.tile(agents, len(packed.obs)), last.flatten()
        sizes, take = packed.batch_sizes * (self.agents if self.shared else 1), None
        if self._masked and self.shared and self.state_size:
            alive = arrays[self.group.name] if self.group.name else arrays
            sequences = trim_inactive(packed, alive["agent_mask"].take(packed.obs, axis=0))
            sizes, rows, whose = sequences.batch_sizes, rows[sequences.take], whose[sequences.take]
            take = torch.from_numpy(sequences.take).to(device)
            last = last.index_select(0, take)
        index = torch.from_numpy(rows).to(device)
        obs = map_tensors(lambda x: x.flatten(0, 1).index_select(0, index), fields["obs"])
        agent = torch.from_numpy(whose).to(device)
        found = AgentSequence(obs, last, agent, take, sizes.tolist(), action, chosen, agent_mask, action_mask)
        if not self.encoders.trained:
            found.inputs = self._inputs(obs, last, agent)
        return found

    def forward(self, data: AgentSequence) -> Tensor:
        """Values of every action, ``[R, A, n]``; zeros for rows that were left out."""
        inputs = self._inputs(data.obs, data.last_action, data.agent) if data.inputs is None else data.inputs
        q, _ = self._run(inputs, data.batch_sizes, None)
        if not self.shared:
            return q.transpose(0, 1)
        q = q[0]
        if data.take is not None:
            assert data.agent_mask is not None
            q = q.new_zeros(data.agent_mask.numel(), self.choices).index_copy(0, data.take, q)
        return q.view(-1, self.agents, self.choices)

    def _run(self, inputs: Tensor, batch_sizes: Sequence[int], state: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.state_size:
            return self.networks(inputs, batch_sizes, state)
        return self.networks(inputs), inputs.new_zeros(0) if state is None else state

    def _inputs(self, obs: Any, last_action: Tensor, agent: Tensor) -> Tensor:
        """What networks read, ``[1, rows, n]`` or ``[A, rows / A, n]``: features, the last action, who it is."""
        if self.shared:
            features = self.encoders(obs)
        else:
            by_agent = map_tensors(lambda x: x.unflatten(0, (-1, self.agents)).transpose(0, 1), obs)
            features = self.encoders(by_agent).transpose(0, 1).flatten(0, 1)
        parts = [features]
        if self._last_action:
            parts.append(self._one_hot_action.index_select(0, last_action + 1))
        if self._ids:
            parts.append(self._one_hot_agent.index_select(0, agent))
        inputs = torch.cat(parts, dim=1)
        return inputs[None] if self.shared else inputs.view(-1, self.agents, inputs.shape[1]).transpose(0, 1)


@final
class _Own(nn.Module):
    """Networks of one's own, called as ours are."""

    def __init__(self, count: int, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(make() for _ in range(count))
        self.state_size = int(getattr(self.networks[0], "state_size", 0))

    def forward(self, inputs: Tensor, batch_sizes: Sequence[int] = (), state: Tensor | None = None) -> Any:
        if not self.state_size:
            return torch.stack([network(mine) for network, mine in zip(self.networks, inputs, strict=True)])
        if state is None:
            state = inputs.new_zeros(len(inputs), batch_sizes[0] if len(batch_sizes) else 0, self.state_size)
        each = zip(self.networks, inputs, state, strict=True)
        outputs, states = zip(*(network(mine, batch_sizes, own) for network, mine, own in each), strict=True)
        return torch.stack(outputs), torch.stack(states)


def _one_hots(choices: int) -> Tensor:
    return torch.cat([torch.zeros(1, choices), torch.eye(choices)])
