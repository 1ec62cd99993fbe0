"""Policies and critics of a group of agents: encoders and a network for each agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, final

import torch
from gymnasium import Space
from torch import Tensor, nn

from relive.errors import OptionError
from relive.learn.encoders import Encoder, EncoderFactory
from relive.learn.factories import NetworkFactory, custom_network
from relive.learn.networks import Copies, PerAgent, StackedMLP
from relive.tensors import map_tensors

__all__ = ["Critic", "Encoders", "Policy", "network_maker"]

Make = Callable[[int, int, int, int | None], nn.Module]
"""Makes stacked networks, called with their number, the widths of input and output, and ``split``."""


def network_maker(network: NetworkFactory | None, hidden: Sequence[int], **options: Any) -> Make:
    """A factory of agents' networks: ``StackedMLP``, or N custom networks.

    Args:
        network: Makes one custom network, called with the widths of input and output; None: ``StackedMLP``.
        hidden: Units of the hidden layers.
        options: Other arguments of ``StackedMLP``.
    """

    def make(count: int, inputs: int, outputs: int, split: int | None) -> nn.Module:
        if network is None:
            return StackedMLP(count, (inputs, *hidden, outputs), split=split, **options)
        if split is not None:
            raise OptionError("split_critic_input", "be False with a custom network", True)
        return Copies(count, lambda: custom_network(network, inputs, outputs))

    return make


@final
class Encoders(nn.Module):
    """An encoder for each of N networks; one without parameters is shared."""

    def __init__(self, count: int, space: Space[Any], make: EncoderFactory | None) -> None:
        super().__init__()
        first = Encoder(space, make)
        self.trained, self.features = first.trained, first.features
        self._as_is = first.as_is
        more = count - 1 if self.trained else 0
        self.networks = nn.ModuleList([first, *(Encoder(space, make) for _ in range(more))])

    def forward(self, obs: Any) -> Tensor:
        """Features ``[A, B, n]`` of observations ``[A, B, ...]``, each by its agent's encoder."""
        if self._as_is:
            return obs
        if len(self.networks) == 1:
            return self.networks[0](obs)
        return torch.stack([net(map_tensors(itemgetter(i), obs)) for i, net in enumerate(self.networks)])

    def everyone(self, obs: Any) -> Tensor:
        """Concatenated features of all agents' observations ``[A, B, ...]``: by every encoder ``[N, B, A n]``, or by
        the shared one ``[B, A n]``.
        """
        if self._as_is:
            return obs.transpose(0, 1).flatten(1)
        every = [net(obs).transpose(0, 1).flatten(1) for net in self.networks]
        return every[0] if len(every) == 1 else torch.stack(every)


@final
class Policy(nn.Module):
    """The decentralised policies of a group of agents.

    Args:
        shared: Whether all agents share one network.
        ensemble: Networks of each agent, with one encoder.
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
    """The critics of a group of agents: centralised over all groups' observations and actions, or decentralised.

    Args:
        spaces: The number of agents and their observation space, for each group.
        action_width: Width of the joint action.
        own: Whether a critic reads its own agent's observation and action only (decentralised).
        split: Whether a critic's first layer processes observations and actions separately.
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
            obs: ``[A, B, ...]`` of every group, or of this one if critics are decentralised.
            action: Normalised actions: ``[B, n]`` of all agents of a group, or ``[A, B, n]``, one for each critic.
            own: The index of this group, and actions ``[A, B, n]`` that replace each critic's own agent's.
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
