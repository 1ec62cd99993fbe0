"""Mixers: Q_tot of agents' Q and the state, whose argmax is each agent's own argmax (IGM)."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from relive.learn.networks import StackedMLP

__all__ = ["QMixer", "QPlexMixer"]

_TINY = 1e-10  # keeps weights above zero


@final
class QMixer(nn.Module):
    """QMIX's mixer (Rashid et al. 2018): two layers whose weights are absolute hypernetwork outputs.

    >>> mixer = QMixer(agents=3, state=10)
    >>> mixer(torch.zeros(5, 3), torch.zeros(5, 10)).shape
    torch.Size([5])

    Args:
        state: Width of the state.
        units: Width of the hidden layer.
        hypernet_units: Units of the hypernetworks' hidden layer; 0: they have none.
    """

    def __init__(
        self,
        agents: int,
        state: int,
        *,
        units: int = 32,
        hypernet_units: int = 64,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        hidden = (hypernet_units,) if hypernet_units else ()
        self.units = units
        self.w1 = StackedMLP(1, (state, *hidden, agents * units), generator=generator)
        self.b1 = StackedMLP(1, (state, units), generator=generator)
        self.w2 = StackedMLP(1, (state, *hidden, units), generator=generator)
        self.v = StackedMLP(1, (state, units, 1), generator=generator)

    def forward(self, q: Tensor, state: Tensor) -> Tensor:
        """Q_tot ``[R]`` of agents' Q ``[R, A]`` and states ``[R, n]``, monotonic in each agent's Q."""
        w1 = self.w1(state).squeeze(0).abs().unflatten(1, (-1, self.units))
        w2 = self.w2(state).squeeze(0).abs()
        hidden = nn.functional.elu((q[..., None] * w1).sum(dim=1) + self.b1(state).squeeze(0))
        return (hidden * w2).sum(dim=1) + self.v(state)[0, :, 0]


@final
class QPlexMixer(nn.Module):
    """QPLEX's mixer (Wang et al. 2021): values are weighted by the state, advantages by the state and joint action.

    Q_tot = sum_i w_i Q_i + b_i + (lambda_i - 1) w_i (Q_i - V_i), with V_i = max Q_i and positive w(s), lambda(s, a):
    it can represent every joint action-value function that satisfies IGM.

    >>> mixer = QPlexMixer(agents=3, state=10, actions=15)
    >>> mixer(torch.zeros(5, 3), torch.zeros(5, 3), torch.zeros(5, 15), torch.zeros(5, 10)).shape
    torch.Size([5])

    Args:
        state: Width of the state.
        actions: Width of the joint one-hot action.
        units: Hidden units of the networks of w, b and lambda.
        heads: Attention heads that lambda sums over.
    """

    def __init__(
        self,
        agents: int,
        state: int,
        actions: int,
        *,
        units: int = 64,
        heads: int = 4,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.w = StackedMLP(1, (state, units, agents), generator=generator)
        self.b = StackedMLP(1, (state, units, agents), generator=generator)
        self.key = StackedMLP(heads, (state, units, 1), generator=generator)
        self.agent = StackedMLP(heads, (state, units, agents), generator=generator)
        self.action = StackedMLP(heads, (state + actions, units, agents), generator=generator)

    def forward(self, q: Tensor, best_q: Tensor, action: Tensor, state: Tensor) -> Tensor:
        """Q_tot ``[R]`` of the chosen Q ``[R, A]``, the best Q ``[R, A]``, the joint action and the state.

        Args:
            action: Joint one-hot action, ``[R, actions]``.
        """
        w = self.w(state).squeeze(0).abs() + _TINY
        advantage = (w * (q - best_q)).detach()  # only lambda gets this gradient, as in the authors' code
        total = w * q + self.b(state).squeeze(0) + (self.importance(state, action) - 1) * advantage
        return total.sum(dim=1)

    def importance(self, state: Tensor, action: Tensor) -> Tensor:
        """The weights lambda ``[R, A]``: sums over heads of |key(s)| sigmoid(agent(s)) sigmoid(action(s, a))."""
        key, agent, taken = self.key(state).abs() + _TINY, self.agent(state), self.action(state, action)
        return (key * agent.sigmoid() * taken.sigmoid()).sum(dim=0)
