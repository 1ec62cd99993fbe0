"""Sets up a virtual environment with the core compiled once: ``python tools/setup.py .venv train``.

The packages of an extra are found in one resolver pass and installed while the core compiles. `uv` is used where it is
on PATH, with the links that pip is told to find packages by; where it fails, pip. Standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
BUILD = ["scikit-build-core", "nanobind", "numpy", "cmake", "ninja"]
BEGUN = time.monotonic()


def say(text: str) -> None:
    """A line with the seconds since the start."""
    print(f"{time.monotonic() - BEGUN:5.0f} s  {text}", flush=True)


def needs(project: dict[str, Any], extra: str) -> list[str]:
    """What an extra asks for, with the extras of ours that it names written out."""
    found = list(project["dependencies"])
    for each in project["optional-dependencies"][extra]:
        own = re.fullmatch(rf"{project['name']}\[(.*)\]", each)
        found += [one for name in own.group(1).split(",") for one in needs(project, name.strip())] if own else [each]
    return sorted(set(found))


class Installer:
    """Installs into an environment by uv, or by pip."""

    def __init__(self, venv: Path) -> None:
        self.venv, self.python = venv, venv / "bin/python"
        self.uv = shutil.which("uv")

    def make(self) -> None:
        """The environment itself, with pip in it."""
        fast = [self.uv, "venv", "--quiet", "--seed", "--python", sys.executable, str(self.venv)]
        if self.uv is None or subprocess.run([str(each) for each in fast], capture_output=True).returncode:
            subprocess.run([sys.executable, "-m", "venv", str(self.venv)], check=True)

    def commands(self, *args: str) -> list[tuple[list[str], dict[str, str]]]:
        """In the order in which they are tried."""
        limits = ["-c", str(ROOT / "constraints.txt")]
        pip = [str(self.python), "-m", "pip", "install", "--disable-pip-version-check", "--no-compile", *limits, *args]
        found = [(pip, dict(os.environ))]
        if self.uv:
            variables = dict(os.environ)
            links = variables.get("PIP_FIND_LINKS", "")
            if links and "UV_FIND_LINKS" not in variables:
                variables["UV_FIND_LINKS"] = ",".join(links.split())
            found.insert(0, ([self.uv, "pip", "install", "--python", str(self.python), *limits, *args], variables))
        return found

    def start(self, log: IO[str], *args: str) -> Running:
        """Begin to install; output goes to the log."""
        return Running(self.commands(*args), log)

    def installed(self) -> int:
        """How many packages there are."""
        return len(list(self.venv.glob("lib/python*/site-packages/*.dist-info")))


class Running:
    """Commands that are tried one after the other until one succeeds, beside what else is done."""

    def __init__(self, commands: list[tuple[list[str], dict[str, str]]], log: IO[str]) -> None:
        self._commands, self._log = commands, log
        self.failed = False
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)  # an interrupt ends all of it
        self._thread.start()

    def _run(self) -> None:
        begun = time.monotonic()
        for command, variables in self._commands:
            done = subprocess.run(command, cwd=ROOT, env=variables, stdout=self._log, stderr=subprocess.STDOUT)
            self.failed = done.returncode != 0
            self.seconds = time.monotonic() - begun
            if not self.failed:
                return

    @property
    def going(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Until it has ended, at most so long."""
        self._thread.join(seconds)


def last_lines(path: Path) -> str:
    """What a log ends with."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-40:])


def follow(parts: dict[str, tuple[Running, Path]], installer: Installer) -> None:
    """Wait for all of them, with a line every ten seconds."""
    told, going = time.monotonic(), dict(parts)
    while going:
        for name, (part, path) in list(going.items()):
            part.wait(0.2)
            if part.going:
                continue
            del going[name]
            if part.failed:
                for other, _ in going.values():
                    other.wait(600)
                sys.exit(f"{last_lines(path)}\n\n{name}: failed. The lines above say why.")
            say(f"{name}: done in {part.seconds:.0f} s")
        if going and time.monotonic() - told > 10:
            told = time.monotonic()
            found = f" ({installer.installed()} packages installed)" if "packages" in going else ""
            say(f"{' and '.join(going)}{found} ...")


def main() -> None:
    """Set an environment up."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("venv", type=Path)
    parser.add_argument("extra", help="of pyproject.toml: train, dev, ...")
    asked = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installer = Installer(asked.venv.absolute())
    wanted = needs(project, asked.extra)
    pins = "\n".join([*wanted, *BUILD, (ROOT / "constraints.txt").read_text(), sys.version])
    stamp, same = asked.venv / f".packages-{asked.extra}", hashlib.sha256(pins.encode()).hexdigest()
    with tempfile.TemporaryDirectory() as folder:
        logs = {name: Path(folder, name) for name in ("tools", "packages", "core")}
        files = {name: path.open("w") for name, path in logs.items()}
        if not installer.python.exists():
            say(f"setting up {asked.venv} by {'uv' if installer.uv else 'pip'}")
            installer.make()
        have = stamp.exists() and stamp.read_text() == same
        parts = {}
        if not have:
            tools = installer.start(files["tools"], *BUILD)
            follow({"tools to build with": (tools, logs["tools"])}, installer)
            packages = installer.start(files["packages"], *wanted, *BUILD)
            parts["packages"] = (packages, logs["packages"])
        strict = ["--config-settings=cmake.define.RELIVE_WERROR=ON"] if os.environ.get("CI") else []
        core = installer.start(files["core"], "--no-build-isolation", "--no-deps", *strict, "--editable", str(ROOT))
        parts["the core"] = (core, logs["core"])
        follow(parts, installer)
        for file in files.values():
            file.close()
    stamp.write_text(same)
    say("ready")


if __name__ == "__main__":
    main()
