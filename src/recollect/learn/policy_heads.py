"""From an action space to a stochastic policy's distribution, for algorithms that need its log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, final

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from recollect.errors import OptionError
from recollect.learn.actions import Array, BoxActions
from recollect.learn.distributions import Categorical, Distribution, Gaussian, MultiCategorical, SquashedGaussian

__all__ = ["BoxPolicy", "ChoicePolicy", "PolicyHead", "SquashedPolicy", "policy_head"]

_LOG_STD = (-5.0, 2.0)


class PolicyHead(Protocol):
    """What an action space means to a stochastic policy."""

    outputs: int
    """Numbers that a policy network gives."""
    raw_width: int
    """Numbers of ``raw_action``, where rows need it beside the action; 0: they do not."""

    def distribution(self, outputs: Tensor, mask: Tensor | None = None) -> Distribution:
        """Of actions, by what a policy network gives ``[..., outputs]``."""

    def stored(self, fields: Mapping[str, Any]) -> Tensor:
        """Actions as ``log_prob`` takes them, of rows."""

    def env_action(self, action: Tensor) -> Tensor:
        """Actions as the environment takes them, of the distribution's."""

    def to_env(self, action: Tensor) -> Array:
        """The same as arrays of the environment's dtype."""


@final
class ChoicePolicy(nn.Module):
    """One choice or several.

    Args:
        start: The number of each first choice.
        single: Whether an action is one number, not an array of one.
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
        """Choices counted from zero."""
        found: Tensor = fields["action"].long() - self.start
        return found

    def env_action(self, action: Tensor) -> Tensor:
        """Choices as the environment counts them."""
        return action + self.start

    def to_env(self, action: Tensor) -> Array:
        """The same as an array."""
        return self.env_action(action).cpu().numpy()


@final
class BoxPolicy(nn.Module):
    """Normal numbers around the outputs, where -1 to 1 spans the box; beyond it they are clipped.

    What was drawn before clipping is kept in rows as ``raw_action``, since its density is what a policy gradient needs.

    Args:
        log_std: Of the deviation at first, which is learned and the same everywhere.
        networks: 1 if agents share it, else as many as there are agents.
    """

    def __init__(self, space: spaces.Box, log_std: float, networks: int) -> None:
        super().__init__()
        self.box = BoxActions(space)
        self.outputs = self.raw_width = self.box.width
        self.log_std = nn.Parameter(torch.full((networks, self.outputs), log_std))

    def distribution(self, outputs: Tensor, mask: Tensor | None = None) -> Distribution:  # noqa: ARG002
        """The outputs are means."""
        return Gaussian(outputs, self.log_std)

    def stored(self, fields: Mapping[str, Any]) -> Tensor:
        """What was drawn."""
        found: Tensor = fields["raw_action"]
        return found

    def env_action(self, action: Tensor) -> Tensor:
        """Within the box."""
        return self.box.env_action(action)

    def to_env(self, action: Tensor) -> Array:
        """The same, to the last bit."""
        return self.box.to_env(action)


@final
class SquashedPolicy(nn.Module):
    """Tanh of normal numbers whose means and deviations are outputs; -1 to 1 spans the box (Haarnoja et al. 2018)."""

    raw_width = 0

    def __init__(self, space: spaces.Box) -> None:
        super().__init__()
        self.box = BoxActions(space)
        self.outputs = 2 * self.box.width

    def distribution(self, outputs: Tensor, mask: Tensor | None = None) -> SquashedGaussian:  # noqa: ARG002
        """The outputs are means, then logs of deviations."""
        mean, log_std = outputs.chunk(2, dim=-1)
        return SquashedGaussian(mean, log_std.clamp(*_LOG_STD))

    def stored(self, fields: Mapping[str, Any]) -> Tensor:
        """Where actions lie, from -1 to 1."""
        return self.box.normalize(fields["action"])

    def env_action(self, action: Tensor) -> Tensor:
        """Within the box."""
        return self.box.env_action(action)

    def to_env(self, action: Tensor) -> Array:
        """The same, to the last bit."""
        return self.box.to_env(action)


def policy_head(
    space: Space[Any], *, log_std: float = 0.0, networks: int = 1, squash: bool = False
) -> ChoicePolicy | BoxPolicy | SquashedPolicy:
    """What an action space means to a stochastic policy.

    Args:
        log_std: Of a box's deviation at first.
        networks: 1 if agents share one, else as many as there are agents.
        squash: Whether a box's actions are tanh of normal numbers, and not clipped ones.
    """
    if isinstance(space, spaces.Box):
        return SquashedPolicy(space) if squash else BoxPolicy(space, log_std, networks)
    if isinstance(space, spaces.Discrete):
        return ChoicePolicy([int(space.n)], [int(space.start)], single=True)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return ChoicePolicy(space.nvec.tolist(), np.asarray(space.start).tolist(), single=False)
    raise OptionError("action space", "be a Box, Discrete or MultiDiscrete of one axis", space)
