"""The command recollect itself."""

from __future__ import annotations

import pytest

import recollect as rc
from recollect import cli


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"recollect {rc.__version__}\n"
