"""The networks of a group's agents: one each or one for all, and of each as many members as an ensemble has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from recollect.learn.stack import Stack, Trace

__all__ = ["Nets"]


@final
class Nets:
    """Networks by agent, over values ``[A, B, n]``.

    >>> nets = Nets(3, (4, 8, 2))
    >>> nets(torch.zeros(3, 10, 4)).shape
    torch.Size([3, 10, 2])

    Args:
        sizes: Inputs, hidden layers, outputs of one network.
        shared: One network for all agents, who are told apart by a one-hot before their inputs.
        members: Networks of each agent, of which every row names the one that answers.
        split: As a ``Stack`` takes it, counted in inputs without that one-hot, which goes with the first half.
        options: Of the ``Stack``.
    """

    def __init__(
        self,
        agents: int,
        sizes: Sequence[int],
        *,
        shared: bool = False,
        members: int = 1,
        split: int | None = None,
        **options: Any,
    ) -> None:
        self.agents, self.members, self.shared = agents, members, shared
        self._ids = torch.eye(agents)[:, None] if shared and agents > 1 else None
        self.extra = 0 if self._ids is None else agents
        """Inputs that tell agents apart."""
        count = members if shared else agents * members
        whole = None if split is None else split + self.extra
        self.stack = Stack(count, (sizes[0] + self.extra, *sizes[1:]), split=whole, **options)

    def __call__(self, values: Tensor, member: Tensor | None = None) -> Tensor:
        """Outputs ``[A, B, out]``.

        Args:
            values: Inputs ``[A, B, n]``, or ``[B, n]`` that all agents get.
            member: Which member answers, ``[A, B]``.
        """
        return self.chosen(self.stack(self.inputs(values)), member)

    def trace(self, values: Tensor, member: Tensor | None = None) -> tuple[Tensor, Trace]:
        """Outputs, and what a backward pass needs."""
        outputs, trace = self.stack.trace(self.inputs(values))
        return self.chosen(outputs, member), trace

    def backward(self, trace: Trace, grad: Tensor, member: Tensor | None = None) -> None:
        """Write gradients of the parameters from the outputs' gradient ``[A, B, out]``."""
        if self.members > 1:
            assert member is not None
            whole = grad.new_zeros(self.agents, self.members, *grad.shape[1:])
            whole.scatter_(1, _places(member, grad.shape[2]), grad[:, None])
            grad = whole.transpose(0, 1) if self.shared else whole
            grad = grad.reshape(self.stack.count, -1, grad.shape[-1])
        self.stack.backward(trace, grad)

    def inputs(self, values: Tensor) -> Tensor:
        """Inputs as the stack takes them."""
        if self.shared:
            if values.dim() == 2:
                values = values.expand(self.agents, *values.shape)
            if self._ids is not None:
                values = torch.cat([self._ids.expand(-1, values.shape[1], -1), values], dim=2)
            if self.members > 1:
                return values.reshape(1, -1, values.shape[2]).expand(self.members, -1, -1)
        if self.members > 1 and values.dim() == 3:
            return values.repeat_interleave(self.members, dim=0)
        return values

    def chosen(self, outputs: Tensor, member: Tensor | None = None) -> Tensor:
        """What the stack gave, by agent and from the member that answers: ``[A, B, out]``."""
        if self.members == 1:
            return outputs
        assert member is not None
        if self.shared:
            by_agent = outputs.view(self.members, self.agents, -1, outputs.shape[2]).transpose(0, 1)
        else:
            by_agent = outputs.view(self.agents, self.members, -1, outputs.shape[2])
        return by_agent.gather(1, _places(member, outputs.shape[2]))[:, 0]


def _places(member: Tensor, width: int) -> Tensor:
    return member[:, None, :, None].expand(-1, 1, -1, width)
