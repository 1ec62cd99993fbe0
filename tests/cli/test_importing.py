"""Modules that are imported because they were typed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from refusals import refused
from relive.cli.importing import import_from_here, import_typed, taken
from relive.errors import OptionError


def test_modules_of_this_folder_come_after_all_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = list(sys.path)
    import_from_here()
    import_from_here()
    assert sys.path == [*before, str(tmp_path)]


def test_what_is_typed_is_imported_and_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("typed_once", "typed_twice"):
        (tmp_path / f"{name}.py").write_text("FOUND = True\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
    arguments = ["envs", "--import", "typed_once", "simple", "--import", "typed_twice"]
    assert import_typed(arguments) == ("typed_once", "typed_twice")
    assert arguments == ["envs", "simple"]
    assert sys.modules["typed_once"].FOUND
    assert import_typed(arguments) == ()
    for name in ("typed_once", "typed_twice"):
        del sys.modules[name]


def test_a_flag_without_a_value() -> None:
    with refused(OptionError, "--import", got="nothing"):
        taken(["simple", "--import"], "--import")
