"""relive train --seeds: runs of several seeds, and those that were stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

import relive as rl
from refusals import refused
from relive import cli
from relive.training.replay import load_run


def test_seeds_become_one_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [
        "--steps",
        "400",
        "--learning-starts",
        "100",
        "--batch-size",
        "16",
        "--hidden",
        "8",
        "--num-envs",
        "4",
        "--eval-every",
        "200",
    ]
    flags += ["--eval-episodes", "3", "--no-video", "--folder", str(tmp_path / "all"), "--seeds", "4", "7"]
    assert cli.main(["train", "maddpg", "simple", *flags]) == 0
    assert (tmp_path / "all" / "curve.png").exists()
    for seed in (4, 7):
        assert load_run(tmp_path / "all" / f"seed_{seed}").config.seed == seed
    assert "seed 7" in capsys.readouterr().out
    # Stopped in the middle of the second, and called again: the first is done, the second goes on.
    (tmp_path / "all" / "seed_7" / "config.toml").write_text(
        (tmp_path / "all" / "seed_7" / "config.toml").read_text().replace("steps = 400", "steps = 600")
    )
    before = (tmp_path / "all" / "seed_4" / "checkpoint.json").read_bytes()
    (tmp_path / "all" / "seed_4" / "config.toml").write_text(
        (tmp_path / "all" / "seed_4" / "config.toml").read_text().replace("steps = 400", "steps = 300")
    )
    for name, steps in (("4", "300"), ("7", "600")):
        flags[1] = steps
        flags[flags.index("--seeds") :] = ["--seeds", name]
        assert cli.main(["train", "maddpg", "simple", *flags]) == 0
    assert (tmp_path / "all" / "seed_4" / "checkpoint.json").read_bytes() == before
    assert "seed_4 is done" in capsys.readouterr().out
    assert load_run(tmp_path / "all" / "seed_7").steps == 600
    with refused(rl.errors.OptionError, "folder"):
        cli.train.train(["maddpg", "simple", *flags, "--gamma", "0.5"])


def test_seeds_go_on_before_the_first_checkpoint(tmp_path: Path) -> None:
    """A seed that was killed early begins anew; one of other settings is refused."""
    few = ["--steps", "200", "--num-envs", "4", "--eval-every", "100", "--eval-episodes", "2", "--no-video"]
    small = ["--hidden", "8", "8", "--batch-size", "16", "--learning-starts", "50", "--capacity", "1000"]
    command = ["train", "maddpg", "simple_spread", "--folder", str(tmp_path / "all"), *few, *small, "--seeds", "3", "4"]
    assert cli.main(command) == 0
    for name in ("checkpoint.json", "state-0.safetensors"):
        (tmp_path / "all" / "seed_4" / name).unlink()
    assert cli.main(command) == 0
    assert load_run(tmp_path / "all" / "seed_4").steps == 200
    (tmp_path / "all" / "seed_4" / "checkpoint.json").unlink()
    assert cli.main([*command, "--gamma", "0.5"]) == 2
