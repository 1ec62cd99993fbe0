"""Distributions of actions, made from what a policy network gives ``[..., n]``; gradients by autograd.

``sample`` has no gradient, ``rsample`` is reparametrised, ``mode`` is the action that is liked best. ``log_prob`` and
``entropy`` are of the whole action, in nats. A mask says which choices there are, ``[..., n]``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Protocol, final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from recollect.errors import OptionError

__all__ = [
    "Categorical",
    "Distribution",
    "Gaussian",
    "GumbelSoftmax",
    "MultiCategorical",
    "Simplex",
    "SquashedGaussian",
    "TanhDeterministic",
    "gumbel",
]

Generator = torch.Generator | None
_LOG_2PI = math.log(2 * math.pi)


class Distribution(Protocol):
    """A distribution of actions."""

    def sample(self, generator: Generator = None) -> Tensor:
        """An action by chance, without a gradient."""

    def rsample(self, generator: Generator = None) -> Tensor:
        """An action by chance, whose gradient reaches the network."""

    def log_prob(self, action: Tensor) -> Tensor:
        """The log of the probability, or of the density, of actions."""

    def entropy(self) -> Tensor:
        """The entropy."""

    def mode(self) -> Tensor:
        """The action that is most likely."""


@final
class Categorical:
    """One choice among n, by its number ``[...]``.

    >>> Categorical(torch.tensor([0.0, 2.0, 1.0])).mode().item()
    1
    """

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        self.log_probs = _log_softmax(_masked(logits, mask))

    def sample(self, generator: Generator = None) -> Tensor:
        """A choice."""
        return (self.log_probs.detach() + gumbel(self.log_probs, generator)).argmax(dim=-1)

    def rsample(self, generator: Generator = None) -> Tensor:  # noqa: ARG002
        """There is none: a choice is no smooth function of anything."""
        raise OptionError("rsample", "be of a continuous distribution", "Categorical", "Use GumbelSoftmax.")

    def log_prob(self, action: Tensor) -> Tensor:
        """Of choices ``[...]``."""
        if self.log_probs.dim() == 1:
            return self.log_probs.gather(-1, action[..., None])[..., 0]
        return _turned(self.log_probs).gather(-2, action[..., None, :])[..., 0, :]  # along the batch, as it lies

    def entropy(self) -> Tensor:
        """In nats."""
        return _entropy(self.log_probs)

    def mode(self) -> Tensor:
        """The choice of the largest logit."""
        return self.log_probs.argmax(dim=-1)


@final
class MultiCategorical:
    """Several independent choices, by their numbers ``[..., k]``.

    Args:
        logits: Of all of them, one after another: ``[..., sum(nvec)]``.
        nvec: How many there are to choose from, each time.
    """

    def __init__(self, logits: Tensor, nvec: Sequence[int], mask: Tensor | None = None) -> None:
        parts = torch.split(_masked(logits, mask), list(nvec), dim=-1)
        self.parts = [Categorical(part) for part in parts]

    def sample(self, generator: Generator = None) -> Tensor:
        """Choices."""
        return torch.stack([part.sample(generator) for part in self.parts], dim=-1)

    def rsample(self, generator: Generator = None) -> Tensor:  # noqa: ARG002
        """There is none."""
        raise OptionError("rsample", "be of a continuous distribution", "MultiCategorical", "Use GumbelSoftmax.")

    def log_prob(self, action: Tensor) -> Tensor:
        """Of choices ``[..., k]``."""
        return sum_of(part.log_prob(each) for part, each in zip(self.parts, action.unbind(dim=-1), strict=True))

    def entropy(self) -> Tensor:
        """Of all choices together."""
        return sum_of(part.entropy() for part in self.parts)

    def mode(self) -> Tensor:
        """The choices of the largest logits."""
        return torch.stack([part.mode() for part in self.parts], dim=-1)


@final
class GumbelSoftmax:
    """One choice or several as one-hot vectors ``[..., n]``, relaxed so that gradients pass (Jang et al. 2017, Maddison
    et al. 2017): softmax((logits + Gumbel noise) / temperature).

    Args:
        nvec: Where there are several choices, how many each has.
        straight_through: An action is the one-hot of the relaxed one's largest entry; its gradient is that of the
            relaxed one.
    """

    def __init__(
        self,
        logits: Tensor,
        nvec: Sequence[int] | None = None,
        mask: Tensor | None = None,
        *,
        temperature: float = 1.0,
        straight_through: bool = True,
    ) -> None:
        self._logits = _masked(logits, mask)
        self._nvec = None if nvec is None or len(nvec) == 1 else list(nvec)
        self._temperature, self._hard = temperature, straight_through

    # Inside, choices are the last axis but one: reductions over it run along the batch, many times faster.

    def _parts(self, values: Tensor) -> tuple[Tensor, ...]:
        turned = _turned(values)
        return (turned,) if self._nvec is None else torch.split(turned, self._nvec, dim=-2)

    def sample(self, generator: Generator = None) -> Tensor:
        """Without a gradient; relaxed unless straight through."""
        with torch.no_grad():
            return self.rsample(generator)

    def rsample(self, generator: Generator = None) -> Tensor:
        """Relaxed, or one-hot with the relaxed one's gradient."""
        noise = gumbel(_turned(self._logits), generator)
        noisy = (_turned(self._logits) + noise) / self._temperature
        parts = [noisy] if self._nvec is None else torch.split(noisy, self._nvec, dim=-2)
        soft = [torch.softmax(part, dim=-2) for part in parts]
        if self._hard:
            soft = [
                _one_hot(part.detach()) + part - part.detach() if part.requires_grad else _one_hot(part)
                for part in soft
            ]
        return _joined(soft)

    def log_prob(self, action: Tensor) -> Tensor:
        """Of one-hot choices ``[..., n]``."""
        pairs = zip(self._parts(self._logits), self._parts(action), strict=True)
        return sum_of((each * torch.log_softmax(logits, dim=-2)).sum(dim=-2) for logits, each in pairs)

    def behaviour_cloning_loss(self, action: Tensor) -> Tensor:
        """The cross entropy with choices that were seen."""
        return -self.log_prob(action)

    def entropy(self) -> Tensor:
        """Of all choices together."""
        return sum_of(_entropy(torch.log_softmax(logits, dim=-2), dim=-2) for logits in self._parts(self._logits))

    def mode(self) -> Tensor:
        """One-hot of the largest logits."""
        return _joined([_one_hot(part) for part in self._parts(self._logits)])


@final
class TanhDeterministic:
    """A policy without chance: tanh of the outputs, from -1 to 1. It has no density."""

    def __init__(self, outputs: Tensor) -> None:
        self._action = torch.tanh(outputs)

    def sample(self, generator: Generator = None) -> Tensor:  # noqa: ARG002
        """The action, without a gradient."""
        return self._action.detach()

    def rsample(self, generator: Generator = None) -> Tensor:  # noqa: ARG002
        """The action."""
        return self._action

    def log_prob(self, action: Tensor) -> Tensor:  # noqa: ARG002
        """There is none."""
        raise OptionError("log_prob", "be of a distribution with a density", "TanhDeterministic")

    def behaviour_cloning_loss(self, action: Tensor) -> Tensor:
        """Half the squared distance from actions that were seen: a normal density of unit variance around them."""
        return (self._action - action).square().sum(dim=-1) / 2

    def entropy(self) -> Tensor:
        """Nothing that depends on the outputs."""
        return torch.zeros_like(self._action[..., 0])

    def mode(self) -> Tensor:
        """The action."""
        return self._action


@final
class Simplex:
    """Parts of one ``[..., n]``: softmax((outputs + Gumbel noise) / temperature), a relaxed categorical distribution.

    How OpenAI's code of MADDPG moves in particle worlds.
    """

    def __init__(self, outputs: Tensor, *, temperature: float = 1.0) -> None:
        self._logits, self._temperature = outputs, temperature

    def sample(self, generator: Generator = None) -> Tensor:
        """Without a gradient."""
        with torch.no_grad():
            return self.rsample(generator)

    def rsample(self, generator: Generator = None) -> Tensor:
        """The noisy outputs' softmax."""
        noisy = (_turned(self._logits) + gumbel(_turned(self._logits), generator)) / self._temperature
        return _turned(torch.softmax(noisy, dim=-2))

    def log_prob(self, action: Tensor) -> Tensor:
        """The density over the simplex (Maddison et al. 2017, equation 10)."""
        count, heat = action.shape[-1], self._temperature
        log_probs, log_action = _log_softmax(self._logits), action.log()
        score = log_probs - heat * log_action
        scale = math.lgamma(count) + (count - 1) * math.log(heat)
        return scale + (score - log_action).sum(dim=-1) - count * torch.logsumexp(score, dim=-1)

    def behaviour_cloning_loss(self, action: Tensor) -> Tensor:
        """The cross entropy with parts that were seen."""
        return -(action * _log_softmax(self._logits)).sum(dim=-1)

    def entropy(self) -> Tensor:
        """Of the categorical distribution that it relaxes."""
        return _entropy(_log_softmax(self._logits))

    def mode(self) -> Tensor:
        """The outputs' softmax."""
        return _turned(torch.softmax(_turned(self._logits), dim=-2))


@final
class Gaussian:
    """Independent normal numbers ``[..., n]``."""

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean, self.log_std = mean, log_std.expand_as(mean)

    def sample(self, generator: Generator = None) -> Tensor:
        """Without a gradient."""
        with torch.no_grad():
            return self.rsample(generator)

    def rsample(self, generator: Generator = None) -> Tensor:
        """Mean plus noise times deviation."""
        mean = self.mean  # the noise comes in one order, however the mean lies in memory
        noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        return self.mean + self.log_std.exp() * noise

    def log_prob(self, action: Tensor) -> Tensor:
        """The density."""
        away = (action - self.mean) * torch.exp(-self.log_std)
        return -(away.square() / 2 + self.log_std + _LOG_2PI / 2).sum(dim=-1)

    def entropy(self) -> Tensor:
        """In nats."""
        return (self.log_std + (1 + _LOG_2PI) / 2).sum(dim=-1)

    def mode(self) -> Tensor:
        """The mean."""
        return self.mean


@final
class SquashedGaussian:
    """Tanh of independent normal numbers, from -1 to 1 (Haarnoja et al. 2018)."""

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self._normal = Gaussian(mean, log_std)

    def sample(self, generator: Generator = None) -> Tensor:
        """Without a gradient."""
        return torch.tanh(self._normal.sample(generator))

    def rsample(self, generator: Generator = None) -> Tensor:
        """Tanh of a reparametrised normal draw."""
        return torch.tanh(self._normal.rsample(generator))

    def rsample_with_log_prob(self, generator: Generator = None) -> tuple[Tensor, Tensor]:
        """An action and the log of its density, right also where tanh is all but 1."""
        before = self._normal.rsample(generator)
        return torch.tanh(before), self._normal.log_prob(before) - _log_slope(before).sum(dim=-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """The density of actions between -1 and 1."""
        most = 1 - torch.finfo(action.dtype).eps
        before = torch.atanh(action.clamp(-most, most))
        return self._normal.log_prob(before) - _log_slope(before).sum(dim=-1)

    def entropy(self) -> Tensor:
        """The normal's plus the mean log of tanh's derivative, by Gauss-Hermite quadrature with 64 nodes."""
        nodes, weights = (self._normal.mean.new_tensor(part) for part in np.polynomial.hermite_e.hermegauss(64))
        before = self._normal.mean[..., None] + self._normal.log_std.exp()[..., None] * nodes
        mean = (_log_slope(before) * weights).sum(dim=-1) / math.sqrt(2 * math.pi)
        return self._normal.entropy() + mean.sum(dim=-1)

    def mode(self) -> Tensor:
        """Tanh of the mean."""
        return torch.tanh(self._normal.mean)


def gumbel(like: Tensor, generator: Generator = None) -> Tensor:
    """Gumbel noise in the shape of a tensor."""
    chance = torch.rand(like.shape, generator=generator, dtype=like.dtype, device=like.device).clamp_(min=1e-30)
    return chance.log_().neg_().clamp_(min=1e-7).log_().neg_()


def sum_of(parts: Iterable[Tensor]) -> Tensor:
    """The sum of several tensors."""
    return reduce(torch.add, parts)


def _log_slope(before: Tensor) -> Tensor:
    """The log of tanh's derivative, without cancellation."""
    return 2 * (math.log(2) - before - F.softplus(-2 * before))


def _entropy(log_probs: Tensor, dim: int = -1) -> Tensor:
    return -(log_probs.exp() * log_probs).sum(dim=dim)


def _masked(logits: Tensor, mask: Tensor | None) -> Tensor:
    return logits if mask is None else logits.masked_fill(~mask, -1e9)


def _turned(values: Tensor) -> Tensor:
    """The last two axes the other way round."""
    return values.transpose(-1, -2) if values.dim() > 1 else values[:, None]


def _log_softmax(logits: Tensor) -> Tensor:
    return _joined([torch.log_softmax(_turned(logits), dim=-2)]) if logits.dim() > 1 else logits.log_softmax(-1)


def _one_hot(turned: Tensor) -> Tensor:
    """One where the largest value is, else zero, over the last axis but one."""
    places = torch.arange(turned.shape[-2], device=turned.device)[:, None]
    return (turned.max(dim=-2, keepdim=True).indices == places).to(turned.dtype)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Parts one after another, turned back."""
    return (parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=-2)).transpose(-1, -2)
