"""The mean action of an agent's neighbours, which stands for all of them in mean-field learning (Yang et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import torch
from gymnasium import spaces
from torch import Tensor

from relive.agents.actor_critic import fields_of_group
from relive.envs.interface import AgentGroup
from relive.errors import OptionError
from relive.schema import Field

__all__ = ["NEIGHBOURS", "MeanField"]

NEIGHBOURS = ("none", "all", "radius")


@final
class MeanField:
    """Mean actions of every group's agents: of all others of the group who are there, or of those within a radius.

    What agents did last is what their neighbours see of them; before an episode's first step it is nothing.

    Args:
        neighbours: Who counts: all, or radius.
        radius: How far neighbours may be, in the units of ``position``.
    """

    def __init__(
        self, groups: Sequence[AgentGroup], neighbours: Literal["none", "all", "radius"], radius: float
    ) -> None:
        self.enabled = neighbours != "none"
        self._groups, self._radius = tuple(groups), radius if neighbours == "radius" else None
        for group in groups if self.enabled else ():
            if not isinstance(group.action_space, spaces.Discrete):
                raise OptionError("action space", "be Discrete for mean actions", group.action_space)
            if neighbours == "radius" and not group.located:
                remedy = "Use an environment that gives positions (battle: --option positions=true), or all."
                raise OptionError("neighbours", "not be radius where nobody knows where agents are", "'radius'", remedy)

    def width(self, group: AgentGroup) -> int:
        """Numbers of a mean action; 0 if none is made."""
        return int(group.action_space.n) if self.enabled else 0

    def fields(self, group: AgentGroup) -> dict[str, Field]:
        """What rows hold, by name."""
        return {group.key("mean_action"): Field((len(group), self.width(group)))} if self.enabled else {}

    def one_hot(self, group: AgentGroup, action: Tensor) -> Tensor:
        """Actions ``[R, A]`` as the environment counts them, as ``[R, A, n]``."""
        choice = action.long() - int(group.action_space.start)
        return torch.nn.functional.one_hot(choice, int(group.action_space.n)).float()

    def mean(self, group: AgentGroup, seen: Mapping[str, Any], last: Tensor) -> Tensor:
        """The mean action of each agent's neighbours, ``[R, A, n]``; zeros where there are none.

        Args:
            seen: What the environment shows now, for who is there and where.
            last: What agents did before, ``[R, A, n]``; zeros at first.
        """
        fields = fields_of_group(group, seen)
        there = fields["agent_mask"].float() if group.mask else last.new_ones(last.shape[:2])
        if self._radius is None:
            known = last * there[..., None]
            count = there.sum(dim=1, keepdim=True) - there
            total = known.sum(dim=1, keepdim=True) - known
            return total / count.clamp(min=1)[..., None]
        if "position" not in fields:
            raise OptionError(group.key("position"), "be given where neighbours are found by it", "nothing")
        place = fields["position"]
        near = (torch.cdist(place, place) <= self._radius).float() * there[:, None, :]
        near = near * (1 - torch.eye(len(group), device=near.device))
        return (near @ last) / near.sum(dim=2, keepdim=True).clamp(min=1)

    def next_rows(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
        """What was seen after some steps, with the mean actions that these steps make.

        Args:
            before: The steps, with their actions.
            after: What was seen after them, under the names of what is seen.
        """
        made = dict(after)
        for group in self._groups if self.enabled else ():
            action = self.one_hot(group, fields_of_group(group, before)["action"])
            mean = {"mean_action": self.mean(group, after, action)}
            made |= {group.name: {**after[group.name], **mean}} if group.name else mean
        return made
