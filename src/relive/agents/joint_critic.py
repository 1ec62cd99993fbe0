"""Critics of what all agents do: Q of every agent, given the others' actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import torch
from gymnasium import spaces
from torch import Tensor, nn

from relive.agents.actor_critic import encoded, fields_of_group
from relive.agents.central import CentralInputs
from relive.envs.interface import AgentGroup, Env
from relive.learn.actions import action_head
from relive.learn.agent_networks import AgentNetworks
from relive.learn.encoders import EncoderFactory
from relive.learn.policies import Encoders

__all__ = ["JointActions", "JointCritic"]


@final
class JointActions(nn.Module):
    """Actions of all agents of all groups, normalised, one after another: choices one-hot, boxes from -1 to 1."""

    def __init__(self, groups: Sequence[AgentGroup]) -> None:
        super().__init__()
        self._groups = tuple(groups)
        self.heads = nn.ModuleList(action_head(group.action_space) for group in groups)
        self.widths: list[int] = [head.width for head in self.heads]  # type: ignore[misc]
        """Numbers of one agent's action, by group."""
        self.width = sum(len(group) * width for group, width in zip(groups, self.widths, strict=True))

    def forward(self, batch: Mapping[str, Any]) -> list[Tensor]:
        """Actions ``[R, A, n]`` of every group, of rows ``[R, ...]``."""
        fields = [fields_of_group(group, batch)["action"] for group in self._groups]
        return [head.normalize(each) for head, each in zip(self.heads, fields, strict=True)]  # type: ignore[operator]

    def others(self, index: int) -> Tensor:
        """Which numbers of the joint action are not an agent's own, ``[A, width]``, for the agents of a group."""
        count, width = len(self._groups[index]), self.widths[index]
        before = sum(len(group) * w for group, w in zip(self._groups[:index], self.widths[:index], strict=True))
        mask = torch.ones(count, self.width)
        for agent in range(count):
            mask[agent, before + agent * width : before + (agent + 1) * width] = 0
        return mask


@final
class JointCritic(nn.Module):
    """Q of every agent of a group: of each of its choices, or of a continuous action that it is given.

    Args:
        index: Which of the environment's groups.
        actions: The joint actions that it reads.
        kind: ``"own"``: it reads its own agent's observation, and nobody else's action; ``"auto"``: the state, or all
            observations where there is none, with its own agent's and everyone else's action.
        options: Of ``AgentNetworks``.
    """

    _others: Tensor

    def __init__(
        self,
        env: Env,
        index: int,
        actions: JointActions,
        *,
        kind: Literal["auto", "own"],
        encoder: EncoderFactory | None,
        shared: bool,
        **options: Any,
    ) -> None:
        super().__init__()
        self.group = group = env.groups[index]
        self.choices = isinstance(group.action_space, spaces.Discrete)
        self.central = None if kind == "own" else CentralInputs(env, encoder)
        self.encoders = Encoders(1 if shared else len(group), group.obs_space, encoder)
        self.register_buffer("_others", actions.others(index), persistent=False)
        features = self.encoders.features + (0 if self.central is None else self.central.features + actions.width)
        given, outputs = (0, actions.widths[index]) if self.choices else (actions.widths[index], 1)
        self.networks = AgentNetworks(len(group), features + given, outputs, shared=shared, **options)

    def forward(self, batch: Mapping[str, Any], actions: Sequence[Tensor], own: Tensor | None = None) -> Tensor:
        """Q ``[R, A, n]`` of every choice, or ``[R, A, 1]`` of the agents' own continuous actions.

        Args:
            batch: Rows ``[R, ...]``.
            actions: Of all groups, ``[R, A, n]`` each; of an agent's own nothing is read.
            own: Continuous actions ``[R, A, n]`` of this group.
        """
        parts = [encoded(self.encoders, fields_of_group(self.group, batch)["obs"])]
        if self.central is not None:
            parts.append(self.central(batch)[:, None].expand(-1, len(self.group), -1))
            joint = torch.cat([each.flatten(1) for each in actions], dim=1)
            parts.append(joint[:, None] * self._others)
        if own is not None:
            parts.append(own)
        found, _ = self.networks(torch.cat(parts, dim=2))
        return found
