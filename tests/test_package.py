"""The package as a whole: names, version, stub, and what importing it costs."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

from nanobind import stubgen

import relive as rl

ROOT = Path(__file__).parents[1]


LATE = {"agents", "distributed", "envs", "load_policy", "resume", "serve", "train"}
"""Names that are imported when they are asked for."""


def test_all_is_what_there_is() -> None:
    names = {
        name
        for name, value in vars(rl).items()
        if not name.startswith("_") and not (inspect.ismodule(value) and name not in ("errors", "targets"))
    }
    assert names | LATE == set(rl.__all__)
    assert set(dir(rl)) == {*rl.__all__, "__version__"}
    assert all(callable(getattr(rl, name)) or inspect.ismodule(getattr(rl, name)) for name in LATE)
    assert rl.agents.register is not rl.envs.register
    assert inspect.isclass(rl.distributed.Shards)
    assert list(rl.__all__) == sorted(
        rl.__all__, key=lambda name: (name.islower(), name.casefold() if name.islower() else name)
    )


def test_the_memory_has_few_public_members() -> None:
    assert len([name for name in dir(rl.Memory) if not name.startswith("_") and hasattr(rl.Memory, name)]) <= 26


def test_version() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == rl.__version__


def test_only_memory_and_networks_open_the_core() -> None:
    """import-linter does not see compiled modules."""
    source = ROOT / "src/relive"
    for path in source.rglob("*.py"):
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
        if "relive._core" in names:
            assert path.relative_to(source).parts[0] in ("memory", "learn"), path


def test_importing_brings_numpy_and_nothing_else() -> None:
    others = ("torch", "gymnasium", "matplotlib", "rich", "PIL")
    code = f"import sys, relive; print([m for m in {others} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_environments_bring_no_torch() -> None:
    code = "import sys; from relive import envs; envs.make('marines_4v4').reset(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_stub_is_the_cores() -> None:
    """Written by ``make stub``."""
    stub = stubgen.StubGen(importlib.import_module("relive._core"))
    stub.put(importlib.import_module("relive._core"))
    assert stub.get() == (ROOT / "src/relive/_core.pyi").read_text()
