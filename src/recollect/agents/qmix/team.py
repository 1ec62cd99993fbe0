"""One group of agents: their networks, and what these read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from recollect.agents.qmix.layout import Layout, shortened
from recollect.envs.interface import AgentGroup
from recollect.errors import OptionError
from recollect.learn import Recurrent, Stack

if TYPE_CHECKING:
    from recollect.agents.qmix.config import QMIXConfig

__all__ = ["Part", "Team"]

Array = np.ndarray[Any, Any]


@final
class Part:
    """A group's part of a batch, laid out by time.

    Args:
        chosen: What agents did: places among values ``[R, A, n]`` laid flat, ``[S, A]``.
        allowed: What they might do, ``[R, A, n]``, if not everything.
        present: Who was there, ``[R, A]``, if not everyone.
        inputs: What networks read: ``[1, rows, in]`` for one network, ``[A, R, in]`` for one an agent.
        take: Where these rows belong among ``[R * A]``; None: they are all of them in order.
    """

    def __init__(
        self,
        chosen: Tensor,
        allowed: Tensor | None,
        present: Tensor | None,
        inputs: Tensor,
        counts: list[int],
        take: Tensor | None,
    ) -> None:
        self.chosen, self.allowed, self.present = chosen, allowed, present
        self.inputs, self.counts, self.take = inputs, counts, take


@final
class Team:
    """The agents of one group, by one network or one each.

    Args:
        stay: Agents who are not there any more learn on, because what comes then is still their reward.
    """

    def __init__(self, config: QMIXConfig, group: AgentGroup, random: torch.Generator, *, stay: bool = False) -> None:
        if not isinstance(group.action_space, spaces.Discrete):
            remedy = "QMIX chooses among actions; MADDPG learns continuous ones."
            raise OptionError("action space", "be Discrete", group.action_space, remedy)
        if not isinstance(group.obs_space, spaces.Box):
            raise OptionError("observation space", "be a Box", group.obs_space)
        self.group, self._config, self._mask = group, config, group.mask and not stay
        self.agents = len(group)
        self.first_action = int(group.action_space.start)
        self.choices = int(group.action_space.n)
        self.sees = int(np.prod(group.obs_space.shape, dtype=int))
        self._acts = self.choices if config.last_action else 0
        self._ids = self.agents if config.agent_id and config.share and self.agents > 1 else 0
        self.inputs = self.sees + self._acts + self._ids
        self._one_hot_acts = np.eye(
            self.choices + 1, self.choices, dtype=np.float32
        )  # -1: the last, which is all zeros
        self._one_hot_ids = np.eye(self.agents, dtype=np.float32)
        self.count = 1 if config.share else self.agents

        def make() -> Recurrent | Stack:
            if config.recurrent:
                sizes = {"inputs": self.inputs, "units": config.hidden, "outputs": self.choices}
                return Recurrent(self.count, **sizes, generator=random)
            return Stack(self.count, (self.inputs, config.hidden, config.hidden, self.choices), generator=random)

        self.nets, self.target = make(), make()
        self.target.load(self.nets.flat)

    # ---- acting ----------------------------------------------------------------------------------------------------

    def states(self, envs: int) -> Tensor:
        """Recurrent states before the first step, ``[1, E * A, units]`` or ``[A, E, units]``."""
        rows = envs * self.agents if self.count == 1 else envs
        return torch.zeros(self.count, rows, self._config.hidden)

    def restart(self, states: Tensor, rows: Tensor) -> None:
        """States where episodes ended ``[E]`` begin anew."""
        if self.count == 1:
            states.view(len(rows), self.agents, -1)[rows] = 0
        else:
            states[:, rows] = 0

    def values(self, seen: Mapping[str, Any], last: Array, states: Tensor) -> Tensor:
        """Values of every action ``[E, A, n]``; states go on."""
        obs = np.asarray(seen[self.group.key("obs")])
        envs = len(obs)
        read = self._read(
            obs.reshape(envs * self.agents, -1), last.ravel(), np.arange(envs * self.agents) % self.agents
        )
        inputs = self._by_network(read)
        found = self.nets.step(inputs, states) if isinstance(self.nets, Recurrent) else self.nets(inputs)
        return found.view(envs, self.agents, -1) if self.count == 1 else found.transpose(0, 1)

    # ---- learning --------------------------------------------------------------------------------------------------

    def read(self, fields: Mapping[str, Any], layout: Layout) -> Part:
        """This group's part of a batch of packed episodes."""
        action = np.asarray(fields["action"]).reshape(-1, self.agents)[layout.steps].astype(np.int64)
        action -= self.first_action
        last = np.full((len(layout.seen), self.agents), -1)
        last[layout.nexts] = action
        allowed = torch.from_numpy(fields["avail_actions"].take(layout.seen, axis=0)) if self.group.avail else None
        present = fields["agent_mask"].take(layout.seen, axis=0) if self._mask else None
        agents = np.arange(self.agents)
        chosen = (layout.first[:, None] * self.agents + agents) * self.choices + action
        rows = (layout.seen[:, None] * self.agents + agents).ravel()
        counts, take = layout.counts * (self.agents if self.count == 1 else 1), None
        if present is not None and self.count == 1 and self._config.recurrent:
            sequences = shortened(layout, present)
            counts, take = sequences.counts, sequences.take
            rows, did, agents = rows[take], last.ravel()[take], take % self.agents
        else:
            did, agents = last.ravel(), np.arange(len(rows)) % self.agents
        obs = fields["obs"]
        return Part(
            torch.from_numpy(chosen),
            allowed,
            None if present is None else torch.from_numpy(present),
            self._by_network(self._read(obs.reshape(len(obs) * self.agents, -1).take(rows, axis=0), did, agents)),
            counts.tolist(),
            None if take is None else torch.from_numpy(take),
        )

    def trace(self, part: Part) -> tuple[Tensor, Any]:
        """Values of every action ``[R, A, n]``, and what a backward pass needs."""
        nets = self.nets
        found, trace = nets.trace(part.inputs, part.counts) if isinstance(nets, Recurrent) else nets.trace(part.inputs)
        return self._by_agent(found, part), trace

    def backward(self, part: Part, trace: Any, grad: Tensor) -> None:
        """Write gradients of the parameters from those of the values ``[R, A, n]``."""
        if self.count > 1:
            down = grad.transpose(0, 1).contiguous()
        else:
            down = grad.view(-1, self.choices)
            down = (down if part.take is None else down[part.take])[None]
        self.nets.backward(trace, down)

    def target_values(self, part: Part) -> Tensor:
        """What the target networks think every action is worth, ``[R, A, n]``."""
        target = self.target
        found = target(part.inputs, part.counts) if isinstance(target, Recurrent) else target(part.inputs)
        return self._by_agent(found, part)

    def _by_agent(self, found: Tensor, part: Part) -> Tensor:
        if self.count > 1:
            return found.transpose(0, 1)
        found = found[0]
        if part.take is not None:
            assert part.present is not None
            whole = found.new_zeros(part.present.numel(), self.choices)
            whole[part.take] = found
            found = whole
        return found.view(-1, self.agents, self.choices)

    # ---- reading ---------------------------------------------------------------------------------------------------

    def _read(self, obs: Array, last: Array, agents: Array) -> Array:
        """What networks read, a row for each agent: what it sees, what it did last, who it is."""
        inputs = np.empty((len(obs), self.inputs), np.float32)
        inputs[:, : self.sees] = obs
        if self._acts:
            inputs[:, self.sees : self.sees + self._acts] = self._one_hot_acts[last]
        if self._ids:
            inputs[:, self.sees + self._acts :] = self._one_hot_ids[agents]
        return inputs

    def _by_network(self, read: Array) -> Tensor:
        rows = torch.from_numpy(read)
        if self.count == 1:
            return rows[None]
        return rows.view(-1, self.agents, self.inputs).transpose(0, 1)
