"""Policy heads: from an action space to a stochastic policy with log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, final

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from relive.errors import OptionError
from relive.learn.actions import BoxActions
from relive.learn.distributions import Categorical, Distribution, Gaussian, MultiCategorical, SquashedGaussian
from relive.types import Array

__all__ = ["BoxPolicy", "ChoicePolicy", "PolicyHead", "SquashedPolicy", "policy_head"]

_LOG_STD = (-5.0, 2.0)


class PolicyHead(Protocol):
    """Maps an action space to a stochastic policy's outputs, distribution and stored actions."""

    outputs: int
    """Width of the policy network's output."""
    raw_width: int
    """Width of ``raw_action``, the action before clipping, where rows store it; 0: they do not."""

    def distribution(self, outputs: Tensor, mask: Tensor | None = None) -> Distribution:
        """The action distribution given policy outputs ``[..., outputs]``."""

    def stored(self, fields: Mapping[str, Any]) -> Tensor:
        """The actions of rows, as ``log_prob`` takes them."""

    def env_action(self, action: Tensor) -> Tensor:
        """The distribution's actions, converted to the environment's."""

    def to_env(self, action: Tensor) -> Array:
        """``env_action`` as an array of the environment's dtype."""


@final
class ChoicePolicy(nn.Module):
    """A categorical policy for Discrete and MultiDiscrete actions.

    Args:
        start: The smallest action of each dimension.
        single: Whether an action is a scalar (Discrete), not an array of one.
    """

    raw_width = 0
    start: Tensor

    def __init__(self, nvec: list[int], start: list[int], *, single: bool) -> None:
        super().__init__()
        self.nvec, self._single, self.outputs = nvec, single, sum(nvec)
        first = torch.tensor(start[0] if single else start)
        self.register_buffer("start", first, persistent=False)

    def distribution(self, outputs: Tensor, mask: Tensor | None = None) -> Distribution:
        """The outputs are logits."""
        return Categorical(outputs, mask) if self._single else MultiCategorical(outputs, self.nvec, mask)

    def stored(self, fields: Mapping[str, Any]) -> Tensor:
        """Action indices from zero."""
        found: Tensor = fields["action"].long() - self.start
        return found

    def env_action(self, action: Tensor) -> Tensor:
        """Action indices from the space's ``start``."""
        return action + self.start

    def to_env(self, action: Tensor) -> Array:
        """``env_action`` as an array."""
        return self.env_action(action).cpu().numpy()


class _ToBox(nn.Module):
    """What policies of Box actions have in common."""

    def __init__(self, space: spaces.Box) -> None:
        super().__init__()
        self.box = BoxActions(space)

    def env_action(self, action: Tensor) -> Tensor:
        """Actions scaled to the box."""
        return self.box.env_action(action)

    def to_env(self, action: Tensor) -> Array:
        """``env_action`` as an array, clipped so that rounding cannot leave the box."""
        return self.box.to_env(action)


@final
class BoxPolicy(_ToBox):
    """A Gaussian policy for Box actions, where [-1, 1] spans the box; samples are clipped to it.

    The unclipped sample is stored as ``raw_action``, since the policy gradient needs its density.

    Args:
        log_std: The initial log standard deviation, learned and independent of the state.
        networks: 1 if agents share it, else the number of agents.
    """

    def __init__(self, space: spaces.Box, log_std: float, networks: int) -> None:
        super().__init__(space)
        self.outputs = self.raw_width = self.box.width
        self.log_std = nn.Parameter(torch.full((networks, self.outputs), log_std))

    def distribution(self, outputs: Tensor, mask: Tensor | None = None) -> Distribution:  # noqa: ARG002
        """The outputs are means."""
        return Gaussian(outputs, self.log_std)

    def stored(self, fields: Mapping[str, Any]) -> Tensor:
        """The unclipped samples."""
        found: Tensor = fields["raw_action"]
        return found


@final
class SquashedPolicy(_ToBox):
    """A squashed Gaussian policy for Box actions; [-1, 1] spans the box (Haarnoja et al. 2018)."""

    raw_width = 0

    def __init__(self, space: spaces.Box) -> None:
        super().__init__(space)
        self.outputs = 2 * self.box.width

    def distribution(self, outputs: Tensor, mask: Tensor | None = None) -> SquashedGaussian:  # noqa: ARG002
        """The outputs are means, then log standard deviations."""
        mean, log_std = outputs.chunk(2, dim=-1)
        return SquashedGaussian(mean, log_std.clamp(*_LOG_STD))

    def stored(self, fields: Mapping[str, Any]) -> Tensor:
        """Actions scaled to [-1, 1]."""
        return self.box.normalize(fields["action"])


def policy_head(
    space: Space[Any], *, log_std: float = 0.0, networks: int = 1, squash: bool = False
) -> ChoicePolicy | BoxPolicy | SquashedPolicy:
    """The policy head of an action space.

    Args:
        log_std: Initial log standard deviation for Box actions.
        networks: 1 if agents share a network, else the number of agents.
        squash: Whether Box actions are squashed by tanh, rather than clipped.
    """
    if isinstance(space, spaces.Box):
        return SquashedPolicy(space) if squash else BoxPolicy(space, log_std, networks)
    if isinstance(space, spaces.Discrete):
        return ChoicePolicy([int(space.n)], [int(space.start)], single=True)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return ChoicePolicy(space.nvec.tolist(), np.asarray(space.start).tolist(), single=False)
    raise OptionError("action space", "be a Box, Discrete or MultiDiscrete of one axis", space)
