"""Encoders: features of observations of any space."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

import relive as rl
from refusals import refused
from relive.errors import OptionError
from relive.learn.encoders import Encoder, FlatEncoder, ImageEncoder


@pytest.mark.parametrize(
    ("space", "features"),
    [
        (spaces.Box(-1, 1, (4,)), 4),
        (spaces.Box(-1, 1, (4, 3)), 12),
        (spaces.Discrete(5, start=2), 5),
        (spaces.MultiDiscrete([2, 3]), 5),
        (spaces.MultiBinary(6), 6),
        (spaces.Box(0, 255, (84, 84, 4), np.uint8), 512),
        (spaces.Box(0, 255, (3, 10, 10), np.uint8), 128),
        (spaces.Dict(at=spaces.Box(-1, 1, (3,)), eye=spaces.Box(0, 255, (12, 12, 1), np.uint8)), 131),
        (spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,))]), 5),
    ],
)
@pytest.mark.parametrize("lead", [(2,), (3, 2), ()])
def test_every_space_has_features(space: Any, features: int, lead: tuple[int, ...]) -> None:
    encoder = Encoder(space)
    space.seed(0)

    def tensors(space: Any) -> Any:
        if isinstance(space, spaces.Dict):
            return {key: tensors(inner) for key, inner in space.spaces.items()}
        if isinstance(space, spaces.Tuple):
            return {str(key): tensors(inner) for key, inner in enumerate(space.spaces)}
        drawn = [np.asarray(space.sample()) for _ in range(math.prod(lead))]
        return torch.from_numpy(np.stack(drawn).reshape((*lead, *(space.shape or ()))))

    found = encoder(tensors(space))
    assert found.shape == (*lead, features)
    assert found.dtype == torch.float32
    assert encoder.features == features


def test_choices_are_one_hot_and_numbers_are_themselves() -> None:
    assert Encoder(spaces.Discrete(3, start=4))(torch.tensor([5, 6])).tolist() == [[0, 1, 0], [0, 0, 1]]
    values = torch.randn(5, 4)
    assert torch.equal(Encoder(spaces.Box(-1, 1, (4,)))(values), values)


def test_bytes_are_scaled_and_channels_found() -> None:
    torch.manual_seed(0)
    bytes_last = ImageEncoder(spaces.Box(0, 255, (12, 12, 3), np.uint8))
    image = torch.randint(256, (2, 12, 12, 3), dtype=torch.uint8)
    floats_first = ImageEncoder(spaces.Box(0, 1, (3, 12, 12), np.float32))
    floats_first.load_state_dict(bytes_last.state_dict())
    torch.testing.assert_close(bytes_last(image), floats_first(image.permute(0, 3, 1, 2) / 255))


@pytest.mark.parametrize(
    "make",
    [
        lambda _: "no module",
        lambda _: nn.Flatten(0),
    ],
)
def test_encoders_that_cannot_be(make: Any) -> None:
    with refused(rl.errors.OptionError, "encoder"):
        Encoder(spaces.Box(-1, 1, (4,)), make)
    with refused(rl.errors.OptionError, "observation space"):
        Encoder(spaces.Text(4))


def test_the_flat_encoder() -> None:
    picture = spaces.Box(0, 255, (4, 4, 2), np.uint8)
    found = Encoder(picture, FlatEncoder)(torch.full((3, 5, 4, 4, 2), 51, dtype=torch.uint8))
    assert found.shape == (3, 5, 32)
    torch.testing.assert_close(found, torch.full_like(found, 0.2))
    with refused(OptionError, "observation space", got="Discrete(3)"):
        FlatEncoder(spaces.Discrete(3))
