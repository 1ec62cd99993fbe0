"""relive envs."""

from __future__ import annotations

import pytest

from relive import cli, envs


def test_the_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["envs"]) == 0
    shown = capsys.readouterr().out
    for entry in envs.entries():
        assert entry.name in shown
        assert entry.line.split()[0] in shown
    assert "3 x adversary: obs Box(16, float32), action Discrete(5)" in shown
    assert cli.main(["envs", "marines_2v7"]) == 0
    shown = capsys.readouterr().out
    assert "2 agents: obs Box(45, float32), action Discrete(13) (action masks, agent masks)" in " ".join(shown.split())
    assert "max_episode_steps = 60" in shown
    assert cli.main(["envs", "gymnasium:CartPole-v1"]) == 0
    assert "1 agent: obs Box(4, float32), action Discrete(2)" in capsys.readouterr().out
    assert cli.main(["envs", "simple_tga"]) == 2
    assert "Did you mean 'simple_tag'?" in capsys.readouterr().err
