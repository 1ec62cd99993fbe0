"""Running means and deviations."""

from __future__ import annotations

import torch

from relive.learn import RunningMeanStd


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
