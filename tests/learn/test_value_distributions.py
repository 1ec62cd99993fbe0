"""Distributions of returns: projections and quantile losses beside loops."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from relive.learn.value_distributions import projected, quantile_huber


@given(seed=st.integers(0, 2**31), atoms=st.integers(2, 9), discount=st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_projections_beside_a_loop(seed: int, atoms: int, discount: float) -> None:
    """Each atom's probability goes to the two atoms beside where it lands, by how near they are; all of it stays."""
    random = torch.Generator().manual_seed(seed)
    support = torch.linspace(-2.0, 3.0, atoms, dtype=torch.float64)
    probs = torch.rand(4, atoms, generator=random, dtype=torch.float64).softmax(dim=1)
    reward = torch.randn(4, generator=random, dtype=torch.float64) * 2
    found = projected(probs, reward, torch.full((4,), discount, dtype=torch.float64), support)
    width = 5.0 / (atoms - 1)
    wanted = torch.zeros(4, atoms, dtype=torch.float64)
    for row in range(4):
        for atom in range(atoms):
            lands = min(max(float(reward[row]) + discount * float(support[atom]), -2.0), 3.0)
            for other in range(atoms):
                near = max(0.0, 1 - abs(lands - float(support[other])) / width)
                wanted[row, other] += probs[row, atom] * near
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(4, dtype=torch.float64))


@given(
    seed=st.integers(0, 2**31), count=st.integers(1, 5), targets=st.integers(1, 4), kappa=st.sampled_from([0.5, 1.0])
)
def test_quantile_losses_beside_a_loop(seed: int, count: int, targets: int, kappa: float) -> None:
    random = torch.Generator().manual_seed(seed)
    quantiles, target = (torch.randn(3, n, generator=random, dtype=torch.float64) * 2 for n in (count, targets))
    for row, found in enumerate(quantile_huber(quantiles, target, kappa)):
        wanted = 0.0
        for i in range(count):
            for j in range(targets):
                error = float(target[row, j] - quantiles[row, i])
                huber = error**2 / 2 if abs(error) <= kappa else kappa * (abs(error) - kappa / 2)
                tau = (i + 0.5) / count
                wanted += abs(tau - (error < 0)) * huber / kappa / targets
        torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64))


def test_quantiles_are_where_their_loss_is_least() -> None:
    """Four quantiles of the numbers 1 to 8 go where an eighth, three eighths, five and seven eighths lie below."""
    quantiles = torch.zeros(1, 4, requires_grad=True)
    targets = torch.arange(1.0, 9.0)[None]
    optimizer = torch.optim.SGD([quantiles], lr=0.02)
    for _ in range(2_000):
        optimizer.zero_grad()
        quantile_huber(quantiles, targets, kappa=0.01).sum().backward()
        optimizer.step()
    below = (targets <= quantiles.detach()[0, :, None]).double().mean(dim=1)
    torch.testing.assert_close(below, torch.tensor([1, 3, 5, 7], dtype=torch.float64) / 8, atol=1 / 8, rtol=0)
    assert (quantiles.diff(dim=1) > 1).all()
