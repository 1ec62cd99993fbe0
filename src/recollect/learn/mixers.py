"""Mixers: one value of all agents' values and the state, whose best joint action is everybody's own best."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from recollect.learn.networks import StackedMLP

__all__ = ["QMixer", "QPlexMixer"]

_TINY = 1e-10  # keeps weights above zero


@final
class QMixer(nn.Module):
    """QMIX's mixer (Rashid et al. 2018): two layers whose weights are absolute outputs of hypernetworks of the state.

    >>> mixer = QMixer(agents=3, state=10)
    >>> mixer(torch.zeros(5, 3), torch.zeros(5, 10)).shape
    torch.Size([5])

    Args:
        state: Numbers of the state.
        units: Between the two layers.
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
        """Q_tot ``[R]`` of agents' values ``[R, A]`` and states ``[R, n]``: it never falls when one of them rises."""
        w1 = self.w1(state)[0].abs().unflatten(1, (-1, self.units))
        w2 = self.w2(state)[0].abs()
        hidden = nn.functional.elu((q[..., None] * w1).sum(dim=1) + self.b1(state)[0])
        return (hidden * w2).sum(dim=1) + self.v(state)[0, :, 0]


@final
class QPlexMixer(nn.Module):
    """QPLEX's mixer (Wang et al. 2021): values are weighed by the state, advantages by the state and all actions.

    Q_tot = sum_i w_i Q_i + b_i + (lambda_i - 1) w_i (Q_i - V_i), with V_i = max Q_i and positive w(s), lambda(s, a):
    any value of a joint action can be told, and nothing is better than everybody's own best.

    >>> mixer = QPlexMixer(agents=3, state=10, actions=15)
    >>> mixer(torch.zeros(5, 3), torch.zeros(5, 3), torch.zeros(5, 15), torch.zeros(5, 10)).shape
    torch.Size([5])

    Args:
        state: Numbers of the state.
        actions: Numbers of all agents' actions, one-hot.
        units: Hidden units of the networks of w, b and lambda.
        heads: Of the attention that lambda is a sum over.
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
        """Q_tot ``[R]`` of agents' values ``[R, A]``, of their best actions' ``[R, A]``, and of what they did.

        Args:
            action: One-hot, ``[R, actions]``.
        """
        w = self.w(state)[0].abs() + _TINY
        advantage = (w * (q - best_q)).detach()  # only its weight learns from it, as in the paper's own code
        total = w * q + self.b(state)[0] + (self.importance(state, action) - 1) * advantage
        return total.sum(dim=1)

    def importance(self, state: Tensor, action: Tensor) -> Tensor:
        """Weights of advantages ``[R, A]``: a sum over heads of |key(s)| sigmoid(agent(s)) sigmoid(action(s, a))."""
        key, agent, taken = self.key(state).abs() + _TINY, self.agent(state), self.action(state, action)
        return (key * agent.sigmoid() * taken.sigmoid()).sum(dim=0)
