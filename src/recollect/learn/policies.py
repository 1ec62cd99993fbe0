"""Policies and critics of a group of agents: an encoder for what they read, and a network each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, final

import torch
from gymnasium import Space
from torch import Tensor, nn

from recollect.errors import OptionError
from recollect.learn.encoders import Encoder, EncoderFactory
from recollect.learn.networks import Copies, NetworkFactory, PerAgent, StackedMLP
from recollect.tensors import map_tensors

__all__ = ["Critic", "Encoders", "Policy", "network_maker"]

Make = Callable[[int, int, int, int | None], nn.Module]
"""Makes networks side by side, from how many, their inputs, their outputs, and where the inputs' second half begins."""


def network_maker(network: NetworkFactory | None, hidden: Sequence[int], **options: Any) -> Make:
    """What makes the networks of agents: multi-layer perceptrons, or copies of a module of one's own.

    Args:
        network: Makes one network, from its inputs and outputs; None: ``StackedMLP``.
        hidden: Units of its hidden layers.
        options: Of ``StackedMLP``.
    """

    def make(count: int, inputs: int, outputs: int, split: int | None) -> nn.Module:
        if network is None:
            return StackedMLP(count, (inputs, *hidden, outputs), split=split, **options)
        if split is not None:
            raise OptionError("split_critic_input", "be False with a network of one's own", True)
        return Copies(count, lambda: network(inputs, outputs))

    return make


@final
class Encoders(nn.Module):
    """An encoder for each of N networks; one that learns nothing serves all."""

    def __init__(self, count: int, space: Space[Any], make: EncoderFactory | None) -> None:
        super().__init__()
        first = Encoder(space, make)
        self.trained, self.features = first.trained, first.features
        self._as_is = first.as_is
        more = count - 1 if self.trained else 0
        self.networks = nn.ModuleList([first, *(Encoder(space, make) for _ in range(more))])

    def forward(self, obs: Any) -> Tensor:
        """Features ``[A, B, n]`` of observations ``[A, B, ...]``, each agent's by its own encoder."""
        if self._as_is:
            return obs
        if len(self.networks) == 1:
            return self.networks[0](obs)
        return torch.stack([net(map_tensors(itemgetter(i), obs)) for i, net in enumerate(self.networks)])

    def everyone(self, obs: Any) -> Tensor:
        """Features of all agents' observations ``[A, B, ...]``: by every encoder ``[N, B, A n]``, or by the only one
        ``[B, A n]``.
        """
        if self._as_is:
            return obs.transpose(0, 1).flatten(1)
        every = [net(obs).transpose(0, 1).flatten(1) for net in self.networks]
        return every[0] if len(every) == 1 else torch.stack(every)


@final
class Policy(nn.Module):
    """What the agents of a group do, by what each of them observes.

    Args:
        shared: Whether all agents share one network.
        ensemble: Networks of each agent; they share its encoder.
    """

    def __init__(
        self,
        agents: int,
        space: Space[Any],
        outputs: int,
        make: Make,
        *,
        encoder: EncoderFactory | None = None,
        shared: bool = False,
        ensemble: int = 1,
    ) -> None:
        super().__init__()
        self.encoders = Encoders(1 if shared else agents, space, encoder)
        features = self.encoders.features
        self.per_agent = PerAgent(
            agents, lambda count, ids: make(count, ids + features, outputs, None), shared=shared, ensemble=ensemble
        )

    def forward(self, obs: Any, ensemble_index: Tensor | None = None) -> Tensor:
        """Outputs ``[A, B, n]`` for observations ``[A, B, ...]``."""
        return self.per_agent(self.encoders(obs), ensemble_index=ensemble_index)


@final
class Critic(nn.Module):
    """Q of every agent of a group, of what all agents of all groups observe and do, or of its own.

    Args:
        spaces: How many agents there are and what one of them observes, group by group.
        action_width: Numbers of everything that is done.
        own: Whether an agent's critic reads that agent's observation and action only.
        split: Whether a critic's first layer keeps observations and actions apart.
    """

    def __init__(
        self,
        agents: int,
        spaces: Sequence[tuple[int, Space[Any]]],
        action_width: int,
        make: Make,
        *,
        encoder: EncoderFactory | None = None,
        shared: bool = False,
        own: bool = False,
        split: bool = False,
    ) -> None:
        super().__init__()
        self._own = own
        networks = 1 if shared else agents
        made = [Encoders(networks, space, encoder) for _, space in spaces]
        self.encoders = nn.ModuleList(made)
        features = sum((1 if own else count) * each.features for (count, _), each in zip(spaces, made, strict=True))

        def network(count: int, ids: int) -> nn.Module:
            return make(count, ids + features + action_width, 1, ids + features if split else None)

        self.per_agent = PerAgent(agents, network, shared=shared)

    def forward(self, obs: Sequence[Any], action: Sequence[Tensor], own: tuple[int, Tensor] | None = None) -> Tensor:
        """Q ``[A, B]``.

        Args:
            obs: ``[A, B, ...]`` of every group, or of this one if critics read their own agent's only.
            action: Normalised actions: ``[B, n]`` of all agents of a group, or ``[A, B, n]`` as each critic sees them.
            own: Which of the groups this is, and actions ``[A, B, n]`` in place of each critic's own agent's.
        """
        if self._own:
            seen = [self.encoders[0](obs[0])]
            done = action if own is None else [own[1]]
            return self.per_agent(*seen, *done).squeeze(-1)
        seen = [encode.everyone(each) for encode, each in zip(self.encoders, obs, strict=True)]  # type: ignore[operator]
        if own is None:
            return self.per_agent(*seen, *action).squeeze(-1)
        before = sum(part.shape[-1] for part in (*seen, *action[: own[0]]))
        first = tuple(before + agent * own[1].shape[2] for agent in range(len(own[1])))
        return self.per_agent(*seen, *action, own=(own[1], first)).squeeze(-1)
