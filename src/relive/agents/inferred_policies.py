"""Policies of others that agents infer from what these do (Lowe et al. 2017, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from gymnasium import Space
from torch import Tensor, nn

from relive.agents.transitions import GroupBatch
from relive.learn.actions import ActionHead
from relive.learn.encoders import EncoderFactory
from relive.learn.policies import Make, Policy
from relive.learn.polyak import target_of
from relive.tensors import map_tensors

__all__ = ["InferredPolicies"]


@final
class InferredPolicies(nn.Module):
    """What each agent of a group takes the policy of every agent to be, and its target.

    Args:
        own: Which of the groups it is.
        groups: How many agents every group has, and what one of them observes.
    """

    def __init__(
        self,
        own: int,
        groups: Sequence[tuple[int, Space[Any]]],
        heads: Sequence[ActionHead],
        make: Make,
        encoder: EncoderFactory | None,
    ) -> None:
        super().__init__()
        self._own, self._heads = own, list(heads)
        self._observers = groups[own][0]
        self.policies = nn.ModuleList(
            Policy(self._observers * count, space, head.outputs, make, encoder=encoder)
            for (count, space), head in zip(groups, heads, strict=True)
        )
        """For each group, those who infer times those whom they infer: ``[observers * A, ...]``."""
        self.targets = target_of(self.policies)

    def loss(self, recent: Sequence[GroupBatch], entropy_coef: float) -> Tensor:
        """The behaviour-cloning loss of every inferred policy, less some of its entropy."""
        losses = []
        for policy, head, seen in zip(self.policies, self._heads, recent, strict=True):
            mask = None if seen.action_mask is None else self._each(seen.action_mask)
            inferred = head.distribution(policy(self._each(seen.obs)), mask)
            loss = inferred.behaviour_cloning_loss(self._each(seen.action)) - entropy_coef * inferred.entropy()
            losses.append((loss if seen.agent_mask is None else loss * self._each(seen.agent_mask)).mean(dim=1))
        return torch.cat(losses)

    def next_actions(self, next_obs: Sequence[Any], own_action: Tensor, masks: Sequence[Tensor | None]) -> list[Tensor]:
        """What everyone will do as each agent of this group thinks, ``[observers, B, A n]`` of every group.

        Args:
            next_obs: ``[A, B, ...]`` of every group.
            own_action: What this group will do, ``[observers, B, n]``: an agent knows its own policy.
            masks: What each group may do.
        """
        actions = []
        for index, (target, head, mask) in enumerate(zip(self.targets, self._heads, masks, strict=True)):
            outputs = target(self._each(next_obs[index]))
            action = head.distribution(outputs, None if mask is None else self._each(mask)).mode()
            action = action.unflatten(0, (self._observers, -1))
            if index == self._own:
                action = torch.diagonal_scatter(action, own_action.permute(1, 2, 0), dim1=0, dim2=1)
            actions.append(action.transpose(1, 2).flatten(2))
        return actions

    def _each(self, values: Any) -> Any:
        """Values ``[A, ...]`` for everyone who infers: ``[observers * A, ...]``."""
        return map_tensors(lambda x: x.expand(self._observers, *x.shape).flatten(0, 1), values)
