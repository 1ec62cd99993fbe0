"""The command relive itself."""

from __future__ import annotations

import pytest

import relive as rl
from relive import cli


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"relive {rl.__version__}\n"
