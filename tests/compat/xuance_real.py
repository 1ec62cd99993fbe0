"""XuanCe as pip installs it, without what it depends on, in a folder of its own."""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

VERSION = "1.4.4"
HERE = Path(__file__).parents[2] / "build"


def installed(version: str = VERSION) -> Path:
    """The folder that holds the package; it is fetched once."""
    folder = HERE / f"xuance-{version}"
    if not folder.exists():
        HERE.mkdir(exist_ok=True)
        fresh = tempfile.mkdtemp(dir=HERE)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--target", fresh, f"xuance=={version}"], check=True)
        with contextlib.suppress(OSError):  # another process was faster
            os.rename(fresh, folder)
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def imported(name: str) -> ModuleType:
    """One of its modules."""
    sys.path.append(str(installed()))
    try:
        return importlib.import_module(f"xuance.common.{name}")
    finally:
        sys.path.pop()


def signatures(name: str, version: str = VERSION) -> dict[str, ast.arguments]:
    """Arguments of a module's functions and methods, by ``Class.method``, as they are written."""
    tree = ast.parse((installed(version) / "xuance" / "common" / f"{name}.py").read_text())
    found = {node.name: node.args for node in tree.body if isinstance(node, ast.FunctionDef)}
    for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for node in kind.body:
            if isinstance(node, ast.FunctionDef):
                found[f"{kind.name}.{node.name}"] = node.args
    return found
