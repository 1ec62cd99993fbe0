"""Everything that the documentation shows is run: doctests, and the Python blocks of each page in order."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import recollect

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md")))]
MODULES = [
    module.name
    for module in pkgutil.walk_packages(recollect.__path__, "recollect.")
    if not module.name.endswith("_core")
]


@pytest.mark.parametrize("name", ["recollect", *MODULES])
def test_doctests(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("page", PAGES)
def test_pages_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    text = (ROOT / page).read_text()
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S):
        line = text[: block.start()].count("\n") + 1
        exec(compile("\n" * line + block.group(1), page, "exec"), names)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text()):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page}: {target}"
