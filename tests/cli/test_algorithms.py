"""relive algorithms."""

from __future__ import annotations

import pytest

from relive import cli
from relive.agents.registry import algorithms


def test_every_algorithm_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["algorithms"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(algorithms())
    texts = [line.split(maxsplit=1)[1] for line in lines]
    assert all(len(text) > 20 for text in texts)
    assert len({line.index(text) for line, text in zip(lines, texts, strict=True)}) == 1, "they are aligned"
