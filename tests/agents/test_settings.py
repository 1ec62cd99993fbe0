"""Settings of all algorithms: every one is explained, whichever group it comes from."""

import dataclasses
import re

import pytest

from relive.agents import registry
from relive.cli import main


@pytest.mark.parametrize("name", sorted(registry.algorithms()))
def test_help_explains_every_flag(name: str, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    algorithm = registry.find(name)
    env = "CartPole-v1" if getattr(algorithm, "single_agent", False) else "simple_spread"
    with pytest.raises(SystemExit):
        main(["train", name, env, "--help"])
    shown = capsys.readouterr().out
    assert "Args:" not in shown
    text = " ".join(shown.replace("│", " ").split())
    for field in dataclasses.fields(algorithm):
        flag = f"--{field.name.replace('_', '-')}"
        found = re.search(rf" {flag}(?:, --no-\S+)? (.*?)\(default:", text)
        assert found, flag
        assert re.search(r"[A-Z][a-z].*[a-z].*\.", found[1].removeprefix("INT")), f"{flag}: {found[1]}"


def test_groups_keep_their_texts_where_defaults_differ(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["train", "maddpg", "simple_spread", "--help"])
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--gamma FLOAT Discount factor gamma. (default: 0.95)" in text
    assert "--max-grad-norm FLOAT Maximum gradient norm of each network; 0: no clipping. (default: 0.5)" in text
