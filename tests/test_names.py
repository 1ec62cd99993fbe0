"""The project's name: what people are told to install, and where the former name still stands."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from relive import errors

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
FORMER = {
    "CHANGELOG.md",
    "src/relive/old_files.py",
    "tests/test_names.py",
    "tests/test_old_files.py",
}
"""Files that may name ``recollect``: the changelog, the module that recognises its files, and their tests."""


def tracked() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone of the repository")
    return subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")


def texts() -> dict[str, str]:
    found = {}
    for name in filter(None, tracked()):
        try:
            found[name] = (ROOT / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):  # pictures; files removed and not committed yet
            continue
    return found


def test_the_former_name_is_nowhere_else() -> None:
    assert {name for name, text in texts().items() if "recollect" in text.lower()} == FORMER
    assert not [name for name in tracked() if "recollect" in name.lower()]


def installed(text: str) -> list[str]:
    """What ``pip install`` commands in a text install, options apart."""
    found = []
    for command in re.findall(r"pip install +((?:(?:'[^'\n]*'|\"[^\"\n]*\"|[\w.<>=~\[\],/*-]+)[ ]?)+)", text):
        found += [word.strip("'\"") for word in command.split() if not word.startswith("-")]
    return found


def test_what_is_to_be_installed_is_ours_with_extras_that_exist() -> None:
    """``recollect`` once told people to install a stranger's package of the same name."""
    wrong = []
    for name, text in texts().items():
        if name.startswith(("bench/", "tests/", ".github/", "Makefile", "tools/")):
            continue
        for word in installed(text.replace("''", "'").replace("`", "\n")):
            source, _, extras = word.partition("[")
            ours = source in (".", "relive") or (source.endswith(".whl") and "relive" in source)
            if not ours:
                continue
            if not source.endswith(".whl") and source != errors.INSTALLED_FROM and "{" not in word:
                wrong.append(f"{name}: {word}")
            wrong += [f"{name}: {word}" for extra in extras.rstrip("]").split(",") if extra and extra not in EXTRAS]
        for extras in re.findall(r"relive\[([\w,-]+)\]", text):
            wrong += [f"{name}: relive[{extra}]" for extra in extras.split(",") if extra not in EXTRAS]
    wrong = [each for each in wrong if each != "docs/release.md: relive==X.Y.Z"]
    assert not wrong


def test_the_check_finds_what_is_wrong() -> None:
    text = "`pip install relive`, pip install 'relive[nope]' gymnasium\npip install -q '.[train]' and\n"
    assert installed(text)[:5] == ["relive", "relive[nope]", "gymnasium", ".[train]", "and"]


def requirements(extra: str) -> set[str]:
    """Names of the packages that an extra brings."""
    found = set()
    for each in EXTRAS[extra]:
        own = re.fullmatch(r"relive\[(.*)\]", each)
        if own:
            found |= set().union(*(requirements(name) for name in own.group(1).split(",")))
        else:
            found.add(re.split(r"[<>=\[]", each)[0])
    return found


def test_missing_packages_are_in_the_extra_that_is_named() -> None:
    found = 0
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "MissingExtra":
                continue
            if all(isinstance(argument, ast.Constant) for argument in node.args):
                packages, extra = (argument.value for argument in node.args)  # type: ignore[attr-defined]
                assert set(packages.split(" and ")) <= requirements(extra), f"{path}: {packages}"
                found += 1
    assert found > 10
