"""Action distributions parametrised by policy outputs ``[..., n]``, differentiable by autograd.

``sample`` is detached, ``rsample`` is reparametrised, ``mode`` is the most likely action. ``log_prob`` and ``entropy``
are of the whole action, in nats. An action mask ``[..., n]`` is True where an action is available.
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

from relive.errors import OptionError

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
    """An action distribution."""

    def sample(self, generator: Generator = None) -> Tensor:
        """A sampled action, detached."""

    def rsample(self, generator: Generator = None) -> Tensor:
        """A reparametrised sample: gradients reach the network."""

    def log_prob(self, action: Tensor) -> Tensor:
        """The log-probability, or log-density, of actions."""

    def entropy(self) -> Tensor:
        """The entropy."""

    def mode(self) -> Tensor:
        """The most likely action."""


@final
class Categorical:
    """A categorical distribution over action indices ``[...]``.

    >>> Categorical(torch.tensor([0.0, 2.0, 1.0])).mode().item()
    1
    """

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        self.log_probs = _log_softmax(_masked(logits, mask))

    def sample(self, generator: Generator = None) -> Tensor:
        """An action index."""
        return (self.log_probs.detach() + gumbel(self.log_probs, generator)).argmax(dim=-1)

    def rsample(self, generator: Generator = None) -> Tensor:  # noqa: ARG002
        """Refused: a categorical sample has no reparametrisation."""
        raise OptionError("rsample", "be of a continuous distribution", "Categorical", "Use GumbelSoftmax.")

    def log_prob(self, action: Tensor) -> Tensor:
        """Of action indices ``[...]``."""
        if self.log_probs.dim() == 1:
            return self.log_probs.gather(-1, action[..., None]).squeeze(-1)
        return _turned(self.log_probs).gather(-2, action[..., None, :])[..., 0, :]  # along the batch, as it lies

    def entropy(self) -> Tensor:
        """In nats."""
        return _entropy(self.log_probs)

    def mode(self) -> Tensor:
        """The index of the largest logit."""
        return self.log_probs.argmax(dim=-1)


@final
class MultiCategorical:
    """Independent categorical distributions over action indices ``[..., k]``.

    Args:
        logits: Concatenated logits, ``[..., sum(nvec)]``.
        nvec: Number of actions in each dimension.
    """

    def __init__(self, logits: Tensor, nvec: Sequence[int], mask: Tensor | None = None) -> None:
        parts = torch.split(_masked(logits, mask), list(nvec), dim=-1)
        self.parts = [Categorical(part) for part in parts]

    def sample(self, generator: Generator = None) -> Tensor:
        """Choices."""
        return torch.stack([part.sample(generator) for part in self.parts], dim=-1)

    def rsample(self, generator: Generator = None) -> Tensor:  # noqa: ARG002
        """Refused: a categorical sample has no reparametrisation."""
        raise OptionError("rsample", "be of a continuous distribution", "MultiCategorical", "Use GumbelSoftmax.")

    def log_prob(self, action: Tensor) -> Tensor:
        """Of action indices ``[..., k]``."""
        return sum_of(part.log_prob(each) for part, each in zip(self.parts, action.unbind(dim=-1), strict=True))

    def entropy(self) -> Tensor:
        """The sum over dimensions."""
        return sum_of(part.entropy() for part in self.parts)

    def mode(self) -> Tensor:
        """The indices of the largest logits."""
        return torch.stack([part.mode() for part in self.parts], dim=-1)


@final
class GumbelSoftmax:
    """Relaxed one-hot actions ``[..., n]``: softmax((logits + Gumbel noise) / temperature) (Jang et al. 2017, Maddison
    et al. 2017).

    Args:
        nvec: Number of actions in each dimension, for MultiDiscrete actions.
        straight_through: Samples are one-hot, with the gradient of the relaxed sample.
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

    # Inside, the action axis is the last but one: reductions over it run along the batch, many times faster.

    def _parts(self, values: Tensor) -> tuple[Tensor, ...]:
        turned = _turned(values)
        return (turned,) if self._nvec is None else torch.split(turned, self._nvec, dim=-2)

    def sample(self, generator: Generator = None) -> Tensor:
        """Detached; relaxed unless straight-through."""
        with torch.no_grad():
            return self.rsample(generator)

    def rsample(self, generator: Generator = None) -> Tensor:
        """Relaxed, or one-hot with the straight-through gradient."""
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
        """Of one-hot actions ``[..., n]``."""
        pairs = zip(self._parts(self._logits), self._parts(action), strict=True)
        return sum_of((each * torch.log_softmax(logits, dim=-2)).sum(dim=-2) for logits, each in pairs)

    def behaviour_cloning_loss(self, action: Tensor) -> Tensor:
        """The cross entropy with observed actions."""
        return -self.log_prob(action)

    def entropy(self) -> Tensor:
        """The sum over dimensions."""
        return sum_of(_entropy(torch.log_softmax(logits, dim=-2), dim=-2) for logits in self._parts(self._logits))

    def mode(self) -> Tensor:
        """The one-hot of the largest logit."""
        return _joined([_one_hot(part) for part in self._parts(self._logits)])


@final
class TanhDeterministic:
    """A deterministic policy: tanh of the outputs, in [-1, 1]. It has no density."""

    def __init__(self, outputs: Tensor) -> None:
        self._action = torch.tanh(outputs)

    def sample(self, generator: Generator = None) -> Tensor:  # noqa: ARG002
        """The action, detached."""
        return self._action.detach()

    def rsample(self, generator: Generator = None) -> Tensor:  # noqa: ARG002
        """The action."""
        return self._action

    def log_prob(self, action: Tensor) -> Tensor:  # noqa: ARG002
        """Refused: a deterministic policy has no density."""
        raise OptionError("log_prob", "be of a distribution with a density", "TanhDeterministic")

    def behaviour_cloning_loss(self, action: Tensor) -> Tensor:
        """Half the squared error to observed actions: the negative log-density of a unit-variance Gaussian."""
        return (self._action - action).square().sum(dim=-1) / 2

    def entropy(self) -> Tensor:
        """Zero."""
        return torch.zeros_like(self._action[..., 0])

    def mode(self) -> Tensor:
        """The action."""
        return self._action


@final
class Simplex:
    """Actions on the simplex ``[..., n]``: softmax((outputs + Gumbel noise) / temperature), a relaxed categorical.

    OpenAI's MADDPG code uses it for movement in particle worlds.
    """

    def __init__(self, outputs: Tensor, *, temperature: float = 1.0) -> None:
        self._logits, self._temperature = outputs, temperature

    def sample(self, generator: Generator = None) -> Tensor:
        """Detached."""
        with torch.no_grad():
            return self.rsample(generator)

    def rsample(self, generator: Generator = None) -> Tensor:
        """The softmax of the perturbed outputs."""
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
        """The cross entropy with observed actions."""
        return -(action * _log_softmax(self._logits)).sum(dim=-1)

    def entropy(self) -> Tensor:
        """The entropy of the categorical distribution that it relaxes."""
        return _entropy(_log_softmax(self._logits))

    def mode(self) -> Tensor:
        """The softmax of the outputs."""
        return _turned(torch.softmax(_turned(self._logits), dim=-2))


@final
class Gaussian:
    """A diagonal Gaussian over ``[..., n]``."""

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean, self.log_std = mean, log_std.expand_as(mean)

    def sample(self, generator: Generator = None) -> Tensor:
        """Detached."""
        with torch.no_grad():
            return self.rsample(generator)

    def rsample(self, generator: Generator = None) -> Tensor:
        """Mean plus noise times standard deviation."""
        mean = self.mean  # the order of the noise must not depend on the mean's strides
        noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        return self.mean + self.log_std.exp() * noise

    def log_prob(self, action: Tensor) -> Tensor:
        """The log-density."""
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
    """Tanh of a diagonal Gaussian, in [-1, 1] (Haarnoja et al. 2018)."""

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self._normal = Gaussian(mean, log_std)

    def sample(self, generator: Generator = None) -> Tensor:
        """Detached."""
        return torch.tanh(self._normal.sample(generator))

    def rsample(self, generator: Generator = None) -> Tensor:
        """Tanh of a reparametrised Gaussian sample."""
        return torch.tanh(self._normal.rsample(generator))

    def rsample_with_log_prob(self, generator: Generator = None) -> tuple[Tensor, Tensor]:
        """An action and its log-density, accurate even where tanh saturates."""
        before = self._normal.rsample(generator)
        return torch.tanh(before), self._normal.log_prob(before) - _log_derivative(before).sum(dim=-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """The log-density of actions in (-1, 1)."""
        most = 1 - torch.finfo(action.dtype).eps
        before = torch.atanh(action.clamp(-most, most))
        return self._normal.log_prob(before) - _log_derivative(before).sum(dim=-1)

    def entropy(self) -> Tensor:
        """The Gaussian's entropy plus E[log tanh'], by Gauss-Hermite quadrature with 64 nodes."""
        nodes, weights = (self._normal.mean.new_tensor(part) for part in np.polynomial.hermite_e.hermegauss(64))
        before = self._normal.mean[..., None] + self._normal.log_std.exp()[..., None] * nodes
        mean = (_log_derivative(before) * weights).sum(dim=-1) / math.sqrt(2 * math.pi)
        return self._normal.entropy() + mean.sum(dim=-1)

    def mode(self) -> Tensor:
        """Tanh of the mean."""
        return torch.tanh(self._normal.mean)


def gumbel(like: Tensor, generator: Generator = None) -> Tensor:
    """Gumbel(0, 1) noise in the shape of a tensor."""
    chance = torch.rand(like.shape, generator=generator, dtype=like.dtype, device=like.device).clamp_(min=1e-30)
    return chance.log_().neg_().clamp_(min=1e-7).log_().neg_()


def sum_of(parts: Iterable[Tensor]) -> Tensor:
    """The sum of several tensors."""
    return reduce(torch.add, parts)


def _log_derivative(before: Tensor) -> Tensor:
    """The log of tanh'(x), without cancellation."""
    return 2 * (math.log(2) - before - F.softplus(-2 * before))


def _entropy(log_probs: Tensor, dim: int = -1) -> Tensor:
    return -(log_probs.exp() * log_probs).sum(dim=dim)


def _masked(logits: Tensor, mask: Tensor | None) -> Tensor:
    return logits if mask is None else logits.masked_fill(~mask, -1e9)


def _turned(values: Tensor) -> Tensor:
    """The last two axes swapped."""
    return values.transpose(-1, -2) if values.dim() > 1 else values[:, None]


def _log_softmax(logits: Tensor) -> Tensor:
    return _joined([torch.log_softmax(_turned(logits), dim=-2)]) if logits.dim() > 1 else logits.log_softmax(-1)


def _one_hot(turned: Tensor) -> Tensor:
    """The one-hot of the argmax over the last axis but one."""
    places = torch.arange(turned.shape[-2], device=turned.device)[:, None]
    return (turned.max(dim=-2, keepdim=True).indices == places).to(turned.dtype)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Parts concatenated, with the last two axes swapped back."""
    return (parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=-2)).transpose(-1, -2)
