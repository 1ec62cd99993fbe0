"""Heads, noise and running moments, by numbers worked out on paper and by statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from scipy import stats

import recollect as rc
from recollect.learn import BoxHead, ChoiceHead, Gaussian, OrnsteinUhlenbeck, Running, head_of, linear

FALSE_ALARM = 1e-6


def test_a_box_maps_by_a_straight_line() -> None:
    head = BoxHead(spaces.Box(np.array([0.0, -2.0], np.float32), np.array([1.0, 4.0], np.float32)))
    code = torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 0.5]])
    np.testing.assert_allclose(head.act(code), [[0, -2], [0.5, 1], [1, 2.5]])
    torch.testing.assert_close(head.encode(torch.from_numpy(head.act(code))), code)
    outputs = torch.tensor([[0.0, math.atanh(0.5)]])
    torch.testing.assert_close(head.mode(outputs), torch.tensor([[0.0, 0.5]]))
    code, kept = head.draw(outputs, torch.Generator())
    torch.testing.assert_close(head.backward(kept, torch.ones(1, 2)), torch.tensor([[1.0, 0.75]]))


def test_boxes_of_any_shape() -> None:
    head = BoxHead(spaces.Box(-1, 1, (2, 3)))
    action = torch.rand(5, 4, 2, 3)
    assert head.encode(action).shape == (5, 4, 6)
    assert head.act(head.encode(action)).shape == (5, 4, 2, 3)


def test_choices_are_drawn_as_softmax_says() -> None:
    head = head_of(spaces.Discrete(3, start=5))
    logits = torch.log(torch.tensor([0.2, 0.3, 0.5])).expand(20_000, 3)
    code, _ = head.draw(logits, torch.Generator().manual_seed(0))
    assert stats.chisquare(code.sum(dim=0), 20_000 * np.array([0.2, 0.3, 0.5])).pvalue > FALSE_ALARM
    assert set(head.act(code).tolist()) == {5, 6, 7}
    torch.testing.assert_close(head.encode(torch.from_numpy(head.act(code))), code)
    assert head.act(head.mode(logits[:1])).tolist() == [7]


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("counts", [[4], [2, 3, 5]])
def test_gradients_pass_through_a_draw(hard: bool, counts: list[int]) -> None:
    head = ChoiceHead(counts, [0] * len(counts), single=len(counts) == 1, temperature=0.7, straight_through=hard)
    outputs = torch.randn(6, sum(counts), generator=torch.Generator().manual_seed(0))
    code, kept = head.draw(outputs, torch.Generator().manual_seed(1))
    grad = torch.randn(code.shape, generator=torch.Generator().manual_seed(2))
    asked = outputs.clone().requires_grad_()
    chance = torch.rand(outputs.T.shape, generator=torch.Generator().manual_seed(1)).T
    noisy = (asked - torch.log(-torch.log(chance))) / 0.7
    soft = torch.cat([torch.softmax(part, dim=-1) for part in noisy.split(counts, dim=-1)], dim=-1)
    soft.backward(grad)
    torch.testing.assert_close(head.backward(kept, grad), asked.grad)
    if hard:
        assert ((code == 0) | (code == 1)).all()
        assert (code.sum(dim=-1) == len(counts)).all()
    else:
        torch.testing.assert_close(code, soft.detach())


def test_several_choices_at_once() -> None:
    head = head_of(spaces.MultiDiscrete([2, 3], start=[0, 10]))
    action = torch.tensor([[1, 12], [0, 10]])
    torch.testing.assert_close(head.encode(action), torch.tensor([[0, 1, 0, 0, 1.0], [1, 0, 1, 0, 0.0]]))
    assert head.act(head.encode(action)).tolist() == action.tolist()


def test_what_may_not_be_done_is_not() -> None:
    head = head_of(spaces.Discrete(4))
    allowed = torch.tensor([True, False, True, False])
    outputs = torch.tensor([0.0, 9.0, 1.0, 9.0]).expand(500, 4)
    assert head.mode(outputs, allowed.expand(500, 4))[0].tolist() == [0, 0, 1, 0]
    code, kept = head.draw(outputs, torch.Generator().manual_seed(0), allowed.expand(500, 4))
    assert not code[:, [1, 3]].any()
    assert not head.backward(kept, torch.randn(500, 4))[:, [1, 3]].any()


def test_spaces_that_cannot_be() -> None:
    for space, message in (
        (spaces.Box(-np.inf, 1, (2,)), "action space must have finite bounds, got"),
        (spaces.Box(1, 1, (2,)), "action space must have a high above its low everywhere, got"),
        (
            spaces.MultiBinary(3),
            "action space must be a Box, Discrete or MultiDiscrete of one axis, got MultiBinary(3)",
        ),
    ):
        with pytest.raises(rc.errors.OptionError) as caught:
            head_of(space)
        assert str(caught.value).startswith(message)
    with pytest.raises(rc.errors.OptionError, match=r"^temperature must be above 0, got 0"):
        head_of(spaces.Discrete(2), temperature=0.0)


def test_noise() -> None:
    random = torch.Generator().manual_seed(0)
    drawn = Gaussian()(torch.zeros(2, 50, 100), 0.3, random)
    assert stats.kstest(drawn.flatten().numpy() / 0.3, "norm").pvalue > FALSE_ALARM
    walk = OrnsteinUhlenbeck(theta=0.25)
    like = torch.zeros(1, 2, 1)
    steps = torch.empty(3, 1, 2, 1)
    check = torch.Generator().manual_seed(5)
    for step in steps:
        step.normal_(generator=check)
    random = torch.Generator().manual_seed(5)
    torch.testing.assert_close(walk(like, 0.5, random), 0.5 * steps[0])
    torch.testing.assert_close(walk(like, 0.5, random), 0.75 * 0.5 * steps[0] + 0.5 * steps[1])
    kept = walk.state()
    walk.restart(torch.tensor([True, False]))
    again = OrnsteinUhlenbeck(theta=0.25)
    again.load(kept)
    found = walk(like, 0.5, random)
    random = torch.Generator().manual_seed(5)
    for step in steps[:2]:
        step.normal_(generator=random)
    other = again(like, 0.5, random)
    torch.testing.assert_close(found[0, 0], 0.5 * steps[2, 0, 0])
    torch.testing.assert_close(found[0, 1], other[0, 1])


def test_schedule() -> None:
    assert [linear(1.0, 0.2, 100, step) for step in (0, 50, 100, 900)] == [1.0, 0.6, 0.2, 0.2]


def test_running_moments() -> None:
    values = torch.randn(100, 3, generator=torch.Generator().manual_seed(0)) * 5 + 2
    running = Running((3,))
    assert (running.deviation == 1).all()
    for part in values.split([1, 20, 79]):
        running.update(part)
    torch.testing.assert_close(running.mean, values.double().mean(dim=0))
    torch.testing.assert_close(running.deviation, values.double().std(dim=0, correction=0))
    torch.testing.assert_close(running.scale(values), values / (values**2).mean(dim=0).sqrt())
    assert running(values * 1e9).abs().max() == 10
    again = Running((3,))
    again.load(running.state())
    again.update(values), running.update(values)
    assert torch.equal(again.squares, running.squares)


def test_shares_of_one() -> None:
    head = head_of(spaces.Box(0, 1, (3,), np.float32), shares=True, temperature=0.5)
    outputs = torch.tensor([[[math.log(2.0), 0.0, 0.0]]])
    torch.testing.assert_close(head.mode(outputs), torch.tensor([[[0.5, 0.25, 0.25]]]))
    random = torch.Generator().manual_seed(0)
    code, kept = head.draw(outputs.expand(1, 20_000, 3), random)
    assert code.min() >= 0
    torch.testing.assert_close(code.sum(dim=-1), torch.ones(1, 20_000))
    first = (code.max(dim=-1).indices == 0).float().mean()
    assert abs(first - 0.5) < 0.02, "the largest share is drawn as the choice would be"
    asked = outputs.clone().requires_grad_()
    state = random.get_state()
    drawn, kept = head.draw(outputs, random)
    random.set_state(state)
    again = torch.softmax((asked - torch.log(-torch.log(torch.rand(1, 1, 3, generator=random)))) / 0.5, dim=-1)
    torch.testing.assert_close(drawn, again.detach())
    again.backward(torch.tensor([[[1.0, -2.0, 3.0]]]))
    torch.testing.assert_close(head.backward(kept, torch.tensor([[[1.0, -2.0, 3.0]]])), asked.grad)
    np.testing.assert_array_equal(head.act(drawn), drawn.numpy())
    torch.testing.assert_close(head.encode(drawn), drawn)
    with pytest.raises(rc.errors.OptionError, match="action space must be a Box from 0 to 1"):
        head_of(spaces.Box(-1, 1, (3,)), shares=True)


@pytest.mark.parametrize(("count", "start", "dtype"), [(300, 0, "uint16"), (4, 253, "uint16"), (4, -2, "int8")])
def test_many_choices(count: int, start: int, dtype: str) -> None:
    head = head_of(spaces.Discrete(count, start=start))
    numbers = np.array([[start, start + count - 1]], dtype)
    code = head.encode(torch.from_numpy(numbers))
    assert code.shape == (1, 2, count)
    np.testing.assert_array_equal(head.act(code), numbers)


def test_whole_numbers_of_a_box() -> None:
    head = BoxHead(spaces.Box(0, 4, (2,), np.int64))
    action = head.act(torch.tensor([[[-1.0, 0.2], [0.9, 1.0]]]))
    assert action.dtype == np.int64
    assert action.tolist() == [[[0, 2], [4, 4]]]
