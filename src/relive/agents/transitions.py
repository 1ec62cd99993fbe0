"""Transitions of a group of agents, as learners read them: agents first, actions and observations normalised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from gymnasium import spaces
from torch import Tensor, nn

from relive.envs.interface import AgentGroup
from relive.errors import OptionError
from relive.learn.actions import BoxActions, DiscreteActions, SimplexActions
from relive.learn.running_stats import RunningMeanStd
from relive.tensors import map_tensors

__all__ = ["GroupBatch", "GroupReader"]


@final
@dataclass(slots=True)
class GroupBatch:
    """A group's part of a batch, ``[A, B, ...]``; rows alone have no ``next_...`` and no reward."""

    obs: Any
    action: Tensor
    """Normalised."""
    agent_mask: Tensor | None
    action_mask: Tensor | None
    ensemble_index: Tensor | None = None
    reward: Any = None
    next_obs: Any = None
    next_agent_mask: Tensor | None = None
    next_action_mask: Tensor | None = None


@final
class GroupReader(nn.Module):
    """Reads a group's part of batches, and keeps running statistics of them.

    Args:
        head: What the group's actions mean to networks.
    """

    def __init__(
        self,
        spec: AgentGroup,
        head: BoxActions | DiscreteActions | SimplexActions,
        *,
        normalize_obs: bool = False,
        normalize_reward: bool = False,
    ) -> None:
        super().__init__()
        self.spec, self.head = spec, head
        self.obs_rms = RunningMeanStd((_width(spec),)) if normalize_obs else None
        self.reward_rms = RunningMeanStd() if normalize_reward else None

    def obs(self, obs: Any) -> Any:
        """Observations as networks read them, ``[A, ...]`` of ``[B, A, ...]``."""
        obs = map_tensors(_agents_first, obs)
        return obs if self.obs_rms is None else self.obs_rms(obs.flatten(2))

    def masks(self, fields: Mapping[str, Any], prefix: str = "") -> tuple[Tensor | None, Tensor | None]:
        """Who is alive ``[A, B]`` and which actions may be taken ``[A, B, n]``, where that is not always the same."""
        agent_mask = _agents_first(fields[f"{prefix}agent_mask"]) if self.spec.mask else None
        return agent_mask, _agents_first(fields[f"{prefix}avail_actions"]) if self.spec.avail else None

    def rows(self, batch: Mapping[str, Any]) -> GroupBatch:
        """What was observed and done in rows ``[B, ...]``."""
        fields = batch[self.spec.name] if self.spec.name else batch
        index = fields.get("ensemble_index")
        return GroupBatch(
            self.obs(fields["obs"]),
            _agents_first(self.head.normalize(fields["action"])),
            *self.masks(fields),
            ensemble_index=None if index is None else _agents_first(index).long(),
        )

    def transitions(self, batch: Mapping[str, Any]) -> GroupBatch:
        """A batch of transitions; running statistics take it in."""
        fields = batch[self.spec.name] if self.spec.name else batch
        reward = fields["reward"] if "reward" in fields else batch["reward"]
        reward = reward.T if reward.dim() == 2 else reward.expand(len(self.spec), -1)
        agent_mask, _ = self.masks(fields)
        if self.obs_rms is not None:
            self.obs_rms.update(_agents_first(fields["obs"]).flatten(2), agent_mask)
        if self.reward_rms is not None:
            self.reward_rms.update(reward, agent_mask)
            reward = self.reward_rms.scale(reward)
        found = self.rows(batch)
        found.reward, found.next_obs = reward, self.obs(fields["next_obs"])
        found.next_agent_mask, found.next_action_mask = self.masks(fields, "next_")
        return found


def _agents_first(values: Tensor) -> Tensor:
    return values.transpose(0, 1)


def _width(spec: AgentGroup) -> int:
    if not isinstance(spec.obs_space, spaces.Box) or len(spec.obs_space.shape) > 1:
        raise OptionError("observation space", "be a Box of one axis for normalize_obs", spec.obs_space)
    return int(np.prod(spec.obs_space.shape, dtype=int))
