"""Action heads, encoders, exploration, schedules and running statistics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from scipy import stats
from torch import nn

import recollect as rc
from recollect.learn import Encoder, GaussianNoise, ImageEncoder, OrnsteinUhlenbeck, RunningMeanStd, action_head, linear
from recollect.learn.factories import GIVEN, name_of, resolve
from recollect.learn.losses import TD_LOSSES
from recollect.learn.returns import n_step_return, td_lambda_return
from recollect.learn.sequences import pack_sequences

FALSE_ALARM = 1e-6


# ---- actions -------------------------------------------------------------------------------------------------------


def test_a_box_maps_by_a_straight_line() -> None:
    head = action_head(spaces.Box(np.array([0.0, -2.0], np.float32), np.array([1.0, 4.0], np.float32)))
    action = torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 0.5]])
    np.testing.assert_allclose(head.to_env(action), [[0, -2], [0.5, 1], [1, 2.5]])
    torch.testing.assert_close(head.normalize(torch.from_numpy(head.to_env(action))), action)
    outputs = torch.tensor([[0.0, math.atanh(0.5)]])
    torch.testing.assert_close(head.distribution(outputs).mode(), torch.tensor([[0.0, 0.5]]))


def test_boxes_of_any_shape() -> None:
    head = action_head(spaces.Box(-1, 1, (2, 3)))
    action = torch.rand(5, 4, 2, 3)
    assert head.normalize(action).shape == (5, 4, 6)
    assert head.to_env(head.normalize(action)).shape == (5, 4, 2, 3)


def test_whole_numbers_of_a_box() -> None:
    head = action_head(spaces.Box(0, 4, (2,), np.int64))
    action = head.to_env(torch.tensor([[[-1.0, 0.2], [0.9, 1.0]]]))
    assert action.dtype == np.int64
    assert action.tolist() == [[[0, 2], [4, 4]]]


@pytest.mark.parametrize(("count", "start", "dtype"), [(300, 0, "uint16"), (4, 253, "uint16"), (4, -2, "int8")])
def test_many_choices(count: int, start: int, dtype: str) -> None:
    head = action_head(spaces.Discrete(count, start=start))
    numbers = np.array([[start, start + count - 1]], dtype)
    action = head.normalize(torch.from_numpy(numbers))
    assert action.shape == (1, 2, count)
    np.testing.assert_array_equal(head.to_env(action), numbers)


def test_several_choices_at_once() -> None:
    head = action_head(spaces.MultiDiscrete([2, 3], start=[0, 10]))
    action = torch.tensor([[1, 12], [0, 10]])
    torch.testing.assert_close(head.normalize(action), torch.tensor([[0, 1, 0, 0, 1.0], [1, 0, 1, 0, 0.0]]))
    assert head.to_env(head.normalize(action)).tolist() == action.tolist()


def test_parts_of_one() -> None:
    head = action_head(spaces.Box(0, 1, (3,), np.float32), simplex_actions=True)
    action = head.distribution(torch.randn(2, 4, 3)).sample()
    np.testing.assert_array_equal(head.to_env(action), action.numpy())
    torch.testing.assert_close(head.normalize(action), action)


@pytest.mark.parametrize(
    ("space", "options", "message"),
    [
        (spaces.Box(-np.inf, 1, (2,)), {}, "action space must have finite bounds, got"),
        (spaces.Box(1, 1, (2,)), {}, "action space must have a high above its low everywhere, got"),
        (spaces.MultiBinary(3), {}, "action space must be a Box, Discrete or MultiDiscrete of one axis, got Mul"),
        (spaces.Discrete(2), {"temperature": 0.0}, "temperature must be above 0, got 0.0"),
        (
            spaces.Box(-1, 1, (3,)),
            {"simplex_actions": True},
            "action space must be a Box from 0 to 1 of one axis for simplex_actions, got",
        ),
    ],
)
def test_spaces_that_cannot_be(space: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(rc.errors.OptionError) as caught:
        action_head(space, **options)
    assert str(caught.value).startswith(message)


# ---- encoders ------------------------------------------------------------------------------------------------------


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
    ("make", "message"),
    [
        (lambda _: "no module", "encoder must make a torch.nn.Module, got str"),
        (
            lambda _: nn.Flatten(0),
            "encoder must give features [B, n] of observations [B, ...], got [4] for one",
        ),
    ],
)
def test_encoders_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(rc.errors.OptionError) as caught:
        Encoder(spaces.Box(-1, 1, (4,)), make)
    assert str(caught.value) == message
    with pytest.raises(rc.errors.OptionError, match="observation space must be a Box, Discrete"):
        Encoder(spaces.Text(4))


# ---- exploration, schedules, statistics ----------------------------------------------------------------------------


def test_noise() -> None:
    random = torch.Generator().manual_seed(0)
    drawn = GaussianNoise()(torch.zeros(2, 50, 100), 0.3, random)
    assert stats.kstest(drawn.flatten().numpy() / 0.3, "norm").pvalue > FALSE_ALARM
    walk, like = OrnsteinUhlenbeck(theta=0.25), torch.zeros(1, 2, 1)
    steps = torch.empty(3, 1, 2, 1)
    check = torch.Generator().manual_seed(5)
    for step in steps:
        step.normal_(generator=check)
    random = torch.Generator().manual_seed(5)
    torch.testing.assert_close(walk(like, 0.5, random), 0.5 * steps[0])
    torch.testing.assert_close(walk(like, 0.5, random), 0.75 * 0.5 * steps[0] + 0.5 * steps[1])
    kept = walk.state_dict()
    walk.reset(torch.tensor([True, False]))
    again = OrnsteinUhlenbeck(theta=0.25)
    again.load_state_dict(kept)
    found = walk(like, 0.5, random)
    random = torch.Generator().manual_seed(5)
    for step in steps[:2]:
        step.normal_(generator=random)
    other = again(like, 0.5, random)
    torch.testing.assert_close(found[0, 0], 0.5 * steps[2, 0, 0])
    torch.testing.assert_close(found[0, 1], other[0, 1])


def test_schedule() -> None:
    assert [linear(1.0, 0.2, 100, step) for step in (0, 50, 100, 900)] == [1.0, 0.6, 0.2, 0.2]


def test_running_statistics() -> None:
    values = torch.randn(100, 3, generator=torch.Generator().manual_seed(0)) * 5 + 2
    rms = RunningMeanStd((3,))
    assert (rms.std == 1).all()
    rms.update(values[:0])
    mask = torch.arange(150) < 100
    padded = torch.cat([values, torch.full((50, 3), 1e6)])
    for part, there in zip(padded.split([1, 20, 129]), mask.split([1, 20, 129]), strict=True):
        rms.update(part, there)
    assert rms.count == 100
    torch.testing.assert_close(rms.mean, values.double().mean(dim=0))
    torch.testing.assert_close(rms.std, values.double().std(dim=0, correction=0))
    torch.testing.assert_close(rms.scale(values), values / (values**2).mean(dim=0).sqrt())
    assert rms(values * 1e9).abs().max() == 10
    again = RunningMeanStd((3,))
    again.load_state_dict(rms.state_dict())
    again.update(values), rms.update(values)
    assert torch.equal(again.m2, rms.m2)


def test_losses_of_errors() -> None:
    errors = torch.tensor([0.5, -3.0])
    assert TD_LOSSES["mse"](errors).tolist() == [0.25, 9.0]
    assert TD_LOSSES["huber"](errors).tolist() == [0.125, 2.5]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_returns_are_the_same_on_any_device(own: bool, gamma: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other devices compute, beside the core's scans."""
    random = torch.Generator().manual_seed(0)
    packed = pack_sequences(np.array([3, 1, 5, 4]))
    shape = (13, 2) if own else (13,)
    reward, value = torch.randn(shape, generator=random), torch.randn(shape, generator=random)
    ends = torch.rand(shape, generator=random) < 0.2
    native = [
        td_lambda_return(packed, reward, value, ends, gamma=gamma, lam=0.7),
        *(n_step_return(packed, reward, value, ends, gamma=gamma, n=n) for n in (1, 2, 3, 9)),
    ]

    class Elsewhere(torch.Tensor):
        @property
        def device(self) -> Any:
            return type("Device", (), {"type": "elsewhere"})()

    from recollect.learn import returns

    monkeypatch.setattr(
        returns, "_places", lambda packed, _: tuple(map(torch.from_numpy, (packed.time, packed.column)))
    )
    there = [each.as_subclass(Elsewhere) for each in (reward, value, ends)]
    others = [
        td_lambda_return(packed, *there, gamma=gamma, lam=0.7),
        *(n_step_return(packed, *there, gamma=gamma, n=n) for n in (1, 2, 3, 9)),
    ]
    for one, other in zip(native, others, strict=True):
        torch.testing.assert_close(one, other.as_subclass(torch.Tensor), rtol=1e-5, atol=1e-5)


# ---- parts of one's own --------------------------------------------------------------------------------------------


def make_something() -> None:
    """Something to import."""


def test_names_of_functions() -> None:
    assert resolve("encoder", "auto", {"auto": 3}) == 3
    assert resolve("encoder", "math:sqrt", {}) is math.sqrt
    assert resolve("encoder", make_something, {}) is make_something
    assert name_of(math.sqrt) == "math:sqrt"
    assert name_of(lambda: None) == ""
    assert name_of(nn.Linear) == "torch.nn.modules.linear:Linear"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("automatic", "encoder must be auto, or package.module:function, got 'automatic'"),
        (":x", "encoder must be auto, or package.module:function, got ':x'"),
        (3, "encoder must be auto, package.module:function, or a function, got 3"),
        ("no_such_module:x", "encoder must name something that can be imported, got 'no_such_module:x'. No module"),
        ("math:no_such", "encoder must name something that can be imported, got 'math:no_such'. module 'math' has"),
        ("math:pi", "encoder must name a function or a class, got 'math:pi'"),
        (
            GIVEN,
            "encoder must be given again, since it has no name to import it by, got '(given in Python)'. "
            "Pass networks={'encoder': ...}.",
        ),
    ],
)
def test_names_that_cannot_be(value: Any, message: str) -> None:
    with pytest.raises(rc.errors.OptionError) as caught:
        resolve("encoder", value, {"auto": None})
    assert str(caught.value).startswith(message)
