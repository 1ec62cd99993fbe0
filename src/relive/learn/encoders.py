"""Encoders from observations to features: vectors, images, Dict and Tuple spaces, or a custom module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn
from torch.nn import functional as F

from relive.errors import OptionError
from relive.learn.factories import tried
from relive.tensors import map_tensors

__all__ = [
    "ENCODERS",
    "Encoder",
    "EncoderFactory",
    "FlatEncoder",
    "ImageEncoder",
    "TreeEncoder",
    "VectorEncoder",
    "auto_encoder",
]

EncoderFactory = Callable[[Any], nn.Module]
"""Makes a module that maps observations ``[B, *space.shape]`` to features ``[B, n]``."""


@final
class Encoder(nn.Module):
    """Features ``[..., n]`` of observations with any number of leading axes.

    >>> Encoder(spaces.Box(0, 255, (12, 12, 3), np.uint8))(torch.zeros(2, 5, 12, 12, 3, dtype=torch.uint8)).shape
    torch.Size([2, 5, 128])

    Args:
        make: Makes the module; None: ``auto_encoder``.
    """

    def __init__(self, space: Space[Any], make: EncoderFactory | None = None) -> None:
        super().__init__()
        self._axes = _axes(space)
        self.module = auto_encoder(space) if make is None else make(space)
        if not isinstance(self.module, nn.Module):
            raise OptionError("encoder", "make a torch.nn.Module", type(self.module).__name__)
        self.features = _features(self.module, space)
        """Width of the features."""
        self._numbers = isinstance(self.module, VectorEncoder) and isinstance(space, spaces.Box)
        self.as_is = self._numbers and self._axes == 1 and space.dtype in (np.float32, np.float64)  # stored as float32
        """Whether it is the identity."""

    @property
    def trained(self) -> bool:
        """Whether it has parameters."""
        return next(self.module.parameters(), None) is not None

    def forward(self, obs: Any) -> Tensor:
        """Features ``[..., n]``."""
        if self._numbers:  # takes any number of leading axes without a copy
            flat = obs if self._axes == 1 else obs.reshape(*obs.shape[: obs.dim() - self._axes], -1)
            return flat.to(torch.float32)
        leaf, axes = obs, self._axes
        while isinstance(leaf, Mapping):
            key = next(iter(leaf))
            leaf, axes = leaf[key], axes[key]
        lead = leaf.shape[: leaf.dim() - axes]
        flat = map_tensors(lambda x: x.reshape(-1, *x.shape[len(lead) :]), obs)
        features: Tensor = self.module(flat)
        return features.view(*lead, self.features)


def auto_encoder(space: Space[Any]) -> nn.Module:
    """The default encoder of a space."""
    if isinstance(space, spaces.Dict):
        return TreeEncoder({key: auto_encoder(inner) for key, inner in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return TreeEncoder({str(key): auto_encoder(inner) for key, inner in enumerate(space.spaces)})
    if isinstance(space, spaces.Box) and len(space.shape) == 3 and sorted(space.shape)[1] >= 8:
        return ImageEncoder(space)
    return VectorEncoder(space)


@final
class VectorEncoder(nn.Module):
    """Box observations as they are, discrete ones one-hot; without parameters."""

    def __init__(self, space: Space[Any]) -> None:
        super().__init__()
        self._nvec: list[int] = []
        self._start: list[int] = []
        if isinstance(space, spaces.Discrete):
            self._nvec, self._start = [int(space.n)], [int(space.start)]
        elif isinstance(space, spaces.MultiDiscrete):
            self._nvec, self._start = space.nvec.ravel().tolist(), np.ravel(space.start).tolist()
        elif not isinstance(space, (spaces.Box, spaces.MultiBinary)):
            kinds = "a Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple"
            raise OptionError("observation space", f"be {kinds}", space, "Give an encoder of your own.")

    def forward(self, obs: Tensor) -> Tensor:
        """``[B, n]``."""
        flat = obs.reshape(len(obs), -1)
        if not self._nvec:
            return flat.to(torch.float32)
        columns = zip(flat.long().unbind(dim=1), self._nvec, self._start, strict=True)
        return torch.cat([F.one_hot(column - first, count) for column, count, first in columns], dim=1).float()


@final
class ImageEncoder(nn.Module):
    """The convolutions of DQN (Mnih et al. 2015); images below 36 pixels get two smaller layers.

    Channels may come first or last: they are the shortest axis. uint8 pixels are scaled to [0, 1] on the device.

    Args:
        features: Width of the features; 0: 512, or 128 for small images.
        head: Whether a linear layer follows; else the features are the flattened convolutions.
    """

    def __init__(self, space: spaces.Box, features: int = 0, *, head: bool = True) -> None:
        super().__init__()
        shape = tuple(space.shape)
        self._last = shape[2] <= shape[0]
        channels, height, width = (shape[2], *shape[:2]) if self._last else shape
        self._scale = 1 / 255 if space.dtype == np.uint8 else 1.0
        if min(height, width) >= 36:
            layers = [(channels, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1)]
        else:
            layers = [(channels, 16, 3, 1), (16, 32, 3, 2)]
        parts: list[nn.Module] = []
        for before, after, size, stride in layers:
            parts += [nn.Conv2d(before, after, size, stride), nn.ReLU()]
        self.convolutions = nn.Sequential(*parts, nn.Flatten())
        with torch.no_grad():
            found = self.convolutions(torch.zeros(1, channels, height, width)).shape[1]
        outputs = features or (512 if len(layers) == 3 else 128)
        self.head = nn.Sequential(nn.Linear(found, outputs), nn.ReLU()) if head else nn.Identity()

    def forward(self, obs: Tensor) -> Tensor:
        """``[B, features]`` of images ``[B, H, W, C]`` or ``[B, C, H, W]``."""
        image = obs.to(torch.float32) * self._scale
        found: Tensor = self.head(self.convolutions(image.permute(0, 3, 1, 2) if self._last else image))
        return found


@final
class FlatEncoder(nn.Module):
    """Flattened observations, uint8 scaled to [0, 1]; without parameters."""

    def __init__(self, space: Space[Any]) -> None:
        super().__init__()
        if not isinstance(space, spaces.Box):
            raise OptionError("observation space", "be a Box for a flat encoder", space)
        self._scale = 1 / 255 if space.dtype == np.uint8 else 1.0

    def forward(self, obs: Tensor) -> Tensor:
        """``[B, n]``."""
        return obs.flatten(1).to(torch.float32) * self._scale


@final
class TreeEncoder(nn.Module):
    """An encoder for each part of a Dict or Tuple, their features concatenated."""

    def __init__(self, parts: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self._keys = list(parts)
        self.parts = nn.ModuleList(parts.values())

    def forward(self, obs: Mapping[str, Any]) -> Tensor:
        """``[B, n]``."""
        return torch.cat([part(obs[key]) for key, part in zip(self._keys, self.parts, strict=True)], dim=1)


def _axes(space: Space[Any]) -> Any:
    """The number of axes of an observation, nested as the space is."""
    if isinstance(space, spaces.Dict):
        return {key: _axes(inner) for key, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return {str(key): _axes(inner) for key, inner in enumerate(space.spaces)}
    return len(space.shape or ())


def _zeros(space: Space[Any]) -> Any:
    """One observation of zeros, as networks receive it."""
    if isinstance(space, spaces.Dict):
        return {key: _zeros(inner) for key, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return {str(key): _zeros(inner) for key, inner in enumerate(space.spaces)}
    dtype = torch.from_numpy(np.zeros(0, space.dtype)).dtype
    first = torch.from_numpy(np.asarray(getattr(space, "start", 0)))
    return torch.zeros(1, *(space.shape or ()), dtype=dtype) + first.to(dtype)


def _features(module: nn.Module, space: Space[Any]) -> int:
    rule = "give features [B, n] of observations [B, ...]"
    found = tried("encoder", rule, module, _zeros(space))
    if found.dim() != 2 or len(found) != 1:
        raise OptionError("encoder", rule, f"{list(found.shape)} for one")
    return int(found.shape[1])


def _convolutions(space: Space[Any]) -> ImageEncoder:
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        raise OptionError("observation space", "be an image, a Box of three axes, for convolutions", space)
    return ImageEncoder(space, head=False)


ENCODERS: dict[str, EncoderFactory | None] = {"auto": None, "flat": FlatEncoder, "convolutions": _convolutions}
"""Encoders by name; None is ``auto_encoder``."""
