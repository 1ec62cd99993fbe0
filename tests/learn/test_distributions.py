"""Distributions beside torch's own, by integration, and by statistics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import distributions as theirs

import relive as rl
from refusals import refused
from relive.learn import (
    Categorical,
    Gaussian,
    GumbelSoftmax,
    MultiCategorical,
    Simplex,
    SquashedGaussian,
    TanhDeterministic,
)

FALSE_ALARM = 1e-6
RANDOM = torch.Generator().manual_seed(0)
LOGITS = torch.randn(6, 7, 5, generator=RANDOM)
MASK = torch.rand(6, 7, 5, generator=RANDOM) < 0.6
MASK[..., 2] = True


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("masked", [False, True])
def test_a_choice_is_torchs(masked: bool) -> None:
    mask = MASK if masked else None
    ours = Categorical(LOGITS, mask)
    torchs = theirs.Categorical(logits=LOGITS.masked_fill(~MASK, -1e9) if masked else LOGITS)
    action = torchs.sample()
    torch.testing.assert_close(ours.log_prob(action), torchs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), torchs.entropy())
    assert torch.equal(ours.mode(), torchs.logits.argmax(dim=-1))
    relaxed = GumbelSoftmax(LOGITS, mask=mask)
    one_hot = torch.nn.functional.one_hot(action, 5).float()
    torch.testing.assert_close(relaxed.log_prob(one_hot), torchs.log_prob(action))
    torch.testing.assert_close(relaxed.behaviour_cloning_loss(one_hot), -torchs.log_prob(action))
    torch.testing.assert_close(relaxed.entropy(), torchs.entropy())
    assert torch.equal(relaxed.mode().argmax(dim=-1), ours.mode())


def test_several_choices_are_so_many_single_ones() -> None:
    nvec = [2, 3, 5]
    logits = torch.randn(4, 6, 10, generator=seeded())
    parts = [theirs.Categorical(logits=part) for part in logits.split(nvec, dim=-1)]
    action = torch.stack([part.sample() for part in parts], dim=-1)
    one_hot = torch.cat([torch.nn.functional.one_hot(a, n) for a, n in zip(action.unbind(-1), nvec, strict=True)], -1)
    wanted = sum(part.log_prob(a) for part, a in zip(parts, action.unbind(-1), strict=True))
    entropy = sum(part.entropy() for part in parts)
    for found, done in ((MultiCategorical(logits, nvec), action), (GumbelSoftmax(logits, nvec), one_hot.float())):
        torch.testing.assert_close(found.log_prob(done), wanted)
        torch.testing.assert_close(found.entropy(), entropy)
    mode = MultiCategorical(logits, nvec).mode()
    hot = GumbelSoftmax(logits, nvec).mode().split(nvec, dim=-1)
    assert torch.equal(mode, torch.stack([part.argmax(dim=-1) for part in hot], dim=-1))
    sampled = MultiCategorical(logits, nvec).sample(seeded())
    assert sampled.shape == (4, 6, 3)
    assert (sampled < torch.tensor(nvec)).all()


@pytest.mark.parametrize("kind", ["categorical", "gumbel"])
def test_choices_come_as_often_as_their_probability(kind: str) -> None:
    chances = torch.tensor([0.2, 0.3, 0.5])
    logits = chances.log().expand(20_000, 3)
    if kind == "categorical":
        drawn = Categorical(logits).sample(seeded())
    else:
        drawn = GumbelSoftmax(logits, temperature=0.3).sample(seeded()).argmax(dim=-1)
    counts = torch.bincount(drawn, minlength=3)
    assert stats.chisquare(counts, 20_000 * chances.numpy()).pvalue > FALSE_ALARM
    mask = torch.tensor([True, False, True]).expand(20_000, 3)
    masked = Categorical(logits, mask).sample(seeded()) if kind == "categorical" else None
    if masked is not None:
        assert (
            stats.chisquare(torch.bincount(masked, minlength=3)[[0, 2]], [20_000 * 2 / 7, 20_000 * 5 / 7])[1]
            > FALSE_ALARM
        )
        assert not (masked == 1).any()


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("nvec", [[4], [2, 3, 5]])
def test_gradients_pass_through_a_relaxed_choice(hard: bool, nvec: list[int]) -> None:
    outputs = torch.randn(6, sum(nvec), generator=seeded())
    grad = torch.randn(6, sum(nvec), generator=seeded(2))
    ours, asked = (outputs.clone().requires_grad_() for _ in range(2))
    action = GumbelSoftmax(ours, nvec, temperature=0.7, straight_through=hard).rsample(seeded(1))
    action.backward(grad)
    chance = torch.rand(outputs.T.shape, generator=seeded(1)).T
    noisy = (asked - torch.log(-torch.log(chance))) / 0.7
    soft = torch.cat([torch.softmax(part, dim=-1) for part in noisy.split(nvec, dim=-1)], dim=-1)
    soft.backward(grad)
    torch.testing.assert_close(ours.grad, asked.grad)
    if hard:
        torch.testing.assert_close(action, action.round())
        torch.testing.assert_close(action.sum(dim=-1), torch.full((6,), float(len(nvec))))
    else:
        torch.testing.assert_close(action, soft)
    again = GumbelSoftmax(outputs, nvec, temperature=0.7, straight_through=hard).sample(seeded(1))
    torch.testing.assert_close(again, action.detach())


def test_what_may_not_be_done_is_not() -> None:
    mask = torch.tensor([True, False, True, False]).expand(500, 4)
    outputs = torch.tensor([0.0, 9.0, 1.0, 9.0]).expand(500, 4).clone().requires_grad_()
    found = GumbelSoftmax(outputs, mask=mask)
    assert found.mode()[0].tolist() == [0, 0, 1, 0]
    action = found.rsample(seeded())
    assert not action[:, [1, 3]].any()
    (action * torch.randn(500, 4, generator=seeded())).sum().backward()
    assert not outputs.grad[:, [1, 3]].any()
    assert outputs.grad[:, [0, 2]].any()


def test_normals_are_torchs() -> None:
    mean, log_std = torch.randn(5, 3, generator=seeded()), torch.randn(3, generator=seeded(1)) / 2
    ours = Gaussian(mean, log_std)
    torchs = theirs.Independent(theirs.Normal(mean, log_std.exp()), 1)
    action = torchs.sample()
    torch.testing.assert_close(ours.log_prob(action), torchs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), torchs.entropy())
    assert torch.equal(ours.mode(), mean)
    many = Gaussian(torch.full((30_000, 1), 2.0), torch.tensor([math.log(0.5)])).sample(seeded())
    assert stats.kstest((many.flatten() - 2) / 0.5, "norm").pvalue > FALSE_ALARM


def test_squashed_normals_are_torchs() -> None:
    mean, log_std = torch.randn(50, 3, generator=seeded()), torch.randn(50, 3, generator=seeded(1)) / 2
    ours = SquashedGaussian(mean, log_std)
    transformed = theirs.TransformedDistribution(
        theirs.Normal(mean.double(), log_std.exp().double()), [theirs.TanhTransform(cache_size=1)]
    )
    action, log_prob = ours.rsample_with_log_prob(seeded(4))
    assert torch.equal(action, ours.rsample(seeded(4)))
    clear = action.abs().amax(dim=1) < 0.999
    assert clear.sum() > 20
    wanted = transformed.log_prob(action.double()).sum(dim=-1).float()
    torch.testing.assert_close(ours.log_prob(action)[clear], wanted[clear], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(log_prob[clear], wanted[clear], rtol=1e-3, atol=1e-3)
    far = SquashedGaussian(torch.full((1, 1), 40.0), torch.zeros(1, 1))
    assert torch.isfinite(far.rsample_with_log_prob(seeded())[1]).all()
    assert torch.isfinite(far.log_prob(torch.ones(1, 1))).all()


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (1.3, 0.2), (-0.7, 2.0)])
def test_squashed_normals_by_integration(mean: float, std: float) -> None:
    """The density adds up to one, and minus its log to the entropy."""
    found = SquashedGaussian(
        torch.tensor([mean], dtype=torch.float64), torch.tensor([math.log(std)], dtype=torch.float64)
    )

    def density(action: float) -> float:
        return float(found.log_prob(torch.tensor([action], dtype=torch.float64)).exp())

    def surprise(action: float) -> float:
        p = density(action)
        return -p * math.log(p) if p > 0 else 0.0

    ends = {"limit": 400, "points": [-0.999, -0.9, 0.0, 0.9, 0.999]}
    assert integrate.quad(density, -1, 1, **ends)[0] == pytest.approx(1, abs=1e-3)
    assert integrate.quad(surprise, -1, 1, **ends)[0] == pytest.approx(float(found.entropy()), abs=3e-3)


def test_parts_of_one_are_a_relaxed_choice() -> None:
    outputs = torch.tensor([[math.log(2.0), 0.0, 0.0]])
    torch.testing.assert_close(Simplex(outputs).mode(), torch.tensor([[0.5, 0.25, 0.25]]))
    many = Simplex(outputs.expand(20_000, 3), temperature=0.5).sample(seeded())
    torch.testing.assert_close(many.sum(dim=-1), torch.ones(20_000))
    assert abs((many.argmax(dim=-1) == 0).float().mean() - 0.5) < 0.02, (
        "the largest part is drawn as the choice would be"
    )
    relaxed = theirs.RelaxedOneHotCategorical(torch.tensor(0.5), logits=outputs.double())
    action = relaxed.sample((50,)).clamp(1e-9, 1)
    ours = Simplex(outputs.double().expand(50, 1, 3), temperature=0.5)
    torch.testing.assert_close(ours.log_prob(action), relaxed.log_prob(action), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(Simplex(outputs).entropy(), theirs.Categorical(logits=outputs).entropy())
    log = torch.log_softmax(outputs, dim=-1)
    seen = torch.tensor([[0.1, 0.2, 0.7]])
    torch.testing.assert_close(Simplex(outputs).behaviour_cloning_loss(seen), -(seen * log).sum(dim=-1))


def test_the_density_over_parts_adds_up_to_one() -> None:
    logits = torch.tensor([0.3, -0.2], dtype=torch.float64)
    found = Simplex(logits[None], temperature=0.8)

    def density(part: float) -> float:
        return float(found.log_prob(torch.tensor([[part, 1 - part]], dtype=torch.float64)).exp())

    assert integrate.quad(density, 1e-12, 1 - 1e-12, limit=200)[0] == pytest.approx(1, abs=1e-3)


def test_a_policy_without_chance() -> None:
    outputs = torch.tensor([[0.0, math.atanh(0.5)]]).requires_grad_()
    found = TanhDeterministic(outputs)
    torch.testing.assert_close(found.mode(), torch.tensor([[0.0, 0.5]]))
    found.rsample().sum().backward()
    torch.testing.assert_close(outputs.grad, torch.tensor([[1.0, 0.75]]))
    assert not found.sample().requires_grad
    assert found.behaviour_cloning_loss(torch.tensor([[3.0, 0.5]])).item() == pytest.approx(4.5)
    assert found.entropy().tolist() == [0.0]


@pytest.mark.parametrize(
    ("call", "about"),
    [
        (
            lambda: Categorical(torch.zeros(2)).rsample(),
            "rsample",
        ),
        (
            lambda: MultiCategorical(torch.zeros(2), [2]).rsample(),
            "rsample",
        ),
        (
            lambda: TanhDeterministic(torch.zeros(2)).log_prob(torch.zeros(2)),
            "log_prob",
        ),
    ],
)
def test_what_there_is_not(call: Any, about: str) -> None:
    with refused(rl.errors.OptionError, about):
        call()


def test_gradients_by_finite_differences() -> None:
    x = torch.randn(3, 4, generator=seeded(), dtype=torch.float64, requires_grad=True)
    action = torch.softmax(torch.randn(3, 4, generator=seeded(1), dtype=torch.float64), dim=-1)
    index = torch.tensor([0, 3, 1])
    cases = [
        lambda x: Categorical(x).log_prob(index) + Categorical(x).entropy(),
        lambda x: GumbelSoftmax(x).entropy() + GumbelSoftmax(x, straight_through=False).rsample(seeded(3)).sum(dim=-1),
        lambda x: Simplex(x, temperature=0.7).log_prob(action) + Simplex(x).rsample(seeded(3))[..., 0],
        lambda x: Gaussian(x, x / 3).log_prob(action) + Gaussian(x, x / 3).entropy(),
        lambda x: SquashedGaussian(x, x / 3).log_prob(action) + SquashedGaussian(x, x / 3).entropy(),
        lambda x: SquashedGaussian(x, x / 3).rsample_with_log_prob(seeded(3))[1],
    ]
    for case in cases:
        assert torch.autograd.gradcheck(case, (x,))


def test_one_row_alone() -> None:
    logits = torch.tensor([0.0, 2.0, 1.0])
    assert Categorical(logits).mode().item() == 1
    assert GumbelSoftmax(logits).mode().flatten().tolist() == [0, 1, 0]
    np.testing.assert_allclose(Categorical(logits).entropy(), theirs.Categorical(logits=logits).entropy(), rtol=1e-6)
