"""relive inspect: what a memory holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_runs import three_seeds

from relive import cli, training


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return three_seeds(tmp_path_factory.mktemp("runs"))


def test_inspecting(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "memory.png"
    assert cli.main(["inspect", str(runs[0]), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    memory = training.checkpoint.load_memory(runs[0])
    assert (
        f"{len(memory):,} steps, {memory.inspect.used_nbytes / 2**20:.1f} MiB; room for 2,000 rows in 8 lanes" in text
    )
    assert "obs     float32[3, 18]         216 bytes a row  observed" in text
    episodes = memory.episodes
    ended = episodes.truncated & episodes.whole
    assert f"episode lengths (steps): {ended.sum()}, 25 to 25, mean 25, median 25" in text
    span = memory.capacity // memory.lanes
    returns = []
    for lane, start in zip(episodes.lane[ended], episodes.start[ended], strict=True):
        rewards = [memory["reward"][lane, serial % span] for serial in range(start, start + 25)]
        returns.append(np.mean(np.sum(rewards, axis=0)))
    said = f"{min(returns):.4g} to {max(returns):.4g}, mean {np.mean(returns):.4g}, median {np.median(returns):.4g}"
    assert f"episode returns (reward): {len(returns)}, {said}" in text
    assert "priorities:" in text
    assert "episode ages (rows since the end):" in text
    with Image.open(out) as picture:
        assert picture.size[0] > 1000
    memory.save(tmp_path / "snapshot")
    assert cli.main(["inspect", str(tmp_path / "snapshot")]) == 0
    assert "Prioritized" in capsys.readouterr().out
