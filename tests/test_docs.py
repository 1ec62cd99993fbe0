"""Everything that the documentation shows is run: doctests, and the Python blocks of each page in order."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import relive

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md")))]
MODULES = [
    module.name for module in pkgutil.walk_packages(relive.__path__, "relive.") if not module.name.endswith("_core")
]


@pytest.mark.parametrize("name", ["relive", *MODULES])
def test_doctests(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.fixture
def _registries() -> Iterator[None]:
    """What a page registers is not there for others."""
    from relive.agents.registry import _ALGORITHMS
    from relive.envs.registry import _ENTRIES

    kept: list[tuple[dict[str, Any], dict[str, Any]]] = [(each, dict(each)) for each in (_ALGORITHMS, _ENTRIES)]
    yield
    for registry, before in kept:
        registry.clear()
        registry.update(before)


@pytest.mark.usefixtures("_registries")
@pytest.mark.parametrize("page", PAGES)
def test_pages_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    text = (ROOT / page).read_text()
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S):
        line = text[: block.start()].count("\n") + 1
        exec(compile("\n" * line + block.group(1), page, "exec"), names)


BARE = """
import sys
for name in ("torch", "gymnasium", "pettingzoo", "matplotlib", "tyro", "rich", "safetensors", "h5py", "zstandard"):
    sys.modules[name] = None
exec(compile(sys.stdin.read(), "README.md", "exec"))
loaded = {name.split(".")[0] for name, module in sys.modules.items() if module is not None}
print(sorted(loaded & {"torch", "scipy", "PIL"}))
"""


def test_the_first_snippet_needs_numpy_alone(tmp_path: Path) -> None:
    """It is what someone types who has just installed the package, and nothing else."""
    text = (ROOT / "README.md").read_text()
    snippet = re.search(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert snippet is not None
    done = subprocess.run(
        [sys.executable, "-c", BARE], input=snippet.group(1), capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def blocks(page: str) -> list[tuple[str, str]]:
    """The code blocks of a page: language and text."""
    return re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def test_the_readme_is_short_and_shows() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 110
    assert max(len(line) for line in lines if not line.startswith("|")) <= 120
    assert any(".gif)" in line for line in lines[:15])
    assert [language for language, _ in blocks("README.md")] == ["python", "python", "console"]
    assert blocks("docs/index.md") == blocks("README.md")


def test_the_readmes_command_trains(tmp_path: Path) -> None:
    *_, (_, commands) = blocks("README.md")
    (command,) = commands.splitlines()
    program, *arguments = command.split()
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert {"curve.png", "episode.gif", "checkpoint.json"} <= {path.name for path in run.iterdir()}


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text()):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page}: {target}"


def test_the_readmes_figures_are_those_of_the_bench() -> None:
    def table(page: str, work: str) -> dict[str, dict[str, str]]:
        text = (ROOT / page).read_text()
        lines = text[text.index(work) :].partition("\n\n")[0].splitlines()
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
        return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}

    shown, measured = table("README.md", "| work |"), table("docs/bench/memory.md", "| work |")
    assert set(shown) == set(measured)  # no kind of work is left out
    for work, row in shown.items():
        assert row.items() <= measured[work].items()


def test_what_the_security_page_claims_is_shown_by_tests_that_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target
    claims = text[text.index("| what comes from") :].partition("\n\n")[0].splitlines()[2:]
    assert all("](tests/" in line for line in claims)
