"""What it costs to install: CPU seconds, bytes fetched and bytes on disk, for relive's wheel and other memories.

python bench/install.py --report docs/bench    (make wheel has written dist/ before)

Each into new virtual environments, which take turns; everything was fetched beforehand, so that seconds are those of
resolving and unpacking, and the network is stated in bytes. CPU seconds, since a busy machine stretches the others.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = """# What it costs to install

Written by `python bench/install.py` on {day}, {machine}, Python {python}, pip {pip}; the machine is shared: read the
ratios.

`pip install` of each into new virtual environments, {rounds} rounds, taking turns, in the versions of
`constraints.txt`. Files were fetched beforehand: CPU seconds are those of resolving and unpacking (medians). Torch is
its CPU build ({torch}); PyTorch's default build for Linux brings CUDA's libraries and is far larger.

{table}

relive is `dist/{wheel}` with NumPy and nothing else. cpprb {compiled}. "times" is CPU time against relive's
(median of each round's ratio). Importing is `import` of the package in a new process, files already read once.
"""
IMPORTS = {
    "relive": "relive",
    "cpprb": "cpprb",
    "torchrl": "torchrl.data",
    "stable-baselines3": "stable_baselines3.common.buffers",
}


class Peer:
    def __init__(self, name: str, what: str, files: Path) -> None:
        self.name, self.what, self.files = name, what, files
        self.cpu: list[float] = []
        self.imports: list[float] = []
        self.packages = 0
        self.on_disk = 0

    @property
    def fetched(self) -> int:
        return sum(path.stat().st_size for path in self.files.iterdir())

    def fetch(self) -> None:
        """Download or build everything that an installation takes."""
        self.files.mkdir(parents=True)
        limits = ["-c", str(ROOT / "constraints.txt")]
        pip(sys.executable, "wheel", "--wheel-dir", str(self.files), *limits, self.what)

    def install(self, folder: Path) -> None:
        """Once more, into a new environment."""
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        python = str(folder / "bin/python")
        before = size(folder)
        spent = children()
        pip(python, "install", "--no-index", "--find-links", str(self.files), "--no-compile", self.name)
        self.cpu.append(children() - spent)
        self.on_disk = size(folder) - before
        listed = subprocess.run([python, "-m", "pip", "list", "--format", "freeze"], capture_output=True, text=True)
        self.packages = len(set(listed.stdout.split())) - 2  # pip and setuptools
        times = []
        for _ in range(4):
            spent = children()
            subprocess.run([python, "-W", "ignore", "-c", f"import {IMPORTS[self.name]}"], check=True)
            times.append(children() - spent)
        self.imports.append(min(times))


def pip(python: str, *args: str) -> None:
    variables = {name: value for name, value in os.environ.items() if args[0] == "wheel" or name != "PIP_FIND_LINKS"}
    command = [python, "-m", "pip", args[0], "--quiet", "--disable-pip-version-check", *args[1:]]
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    if done.returncode:
        sys.exit(done.stderr[-3000:])


def children() -> float:
    """CPU seconds of processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def mega(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--report", type=Path, metavar="FOLDER")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wheel", type=Path, help="of relive (the one in dist/)")
    asked = parser.parse_args()
    wheels = [asked.wheel] if asked.wheel else sorted((ROOT / "dist").glob("*.whl"))
    if not wheels:
        sys.exit("No wheel in dist/: run make wheel first.")
    rounds = 1 if asked.quick else asked.rounds
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        whats = {name: name for name in IMPORTS} | {"relive": str(wheels[0])}
        peers = [Peer(name, what, folder / "files" / name) for name, what in whats.items()]
        for peer in peers:
            peer.fetch()
        for number in range(rounds):
            for peer in peers if number % 2 == 0 else peers[::-1]:
                with tempfile.TemporaryDirectory(dir=folder) as venv:
                    peer.install(Path(venv) / "venv")
        torch = next(path.name for path in peers[2].files.glob("torch-*")).split("-")[1]
        compiled = (
            "comes as a wheel" if _is_binary(peers[1]) else "is compiled when it is fetched, which is not counted"
        )
        lines = ["| | packages | fetched | on disk | CPU seconds | times | import, CPU seconds |"]
        lines += ["|---" * 7 + "|"]
        for peer in peers:
            ratio = statistics.median(mine / ours for mine, ours in zip(peer.cpu, peers[0].cpu, strict=True))
            middle = [statistics.median(each) for each in (peer.cpu, peer.imports)]
            lines.append(
                f"| {peer.name} | {peer.packages} | {mega(peer.fetched)} | {mega(peer.on_disk)} | {middle[0]:.1f} "
                f"| {ratio:.1f} | {middle[1]:.2f} |"
            )
        print("\n".join(lines), flush=True)
        if asked.report:
            version = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, text=True).stdout
            about = {"day": date.today(), "machine": platform.machine(), "python": platform.python_version(),
                     "pip": version.split()[1], "rounds": rounds, "torch": torch, "table": "\n".join(lines),
                     "wheel": wheels[0].name, "compiled": compiled}  # fmt: skip
            (asked.report / "install.md").write_text(PAGE.format(**about))


def _is_binary(peer: Peer) -> bool:
    """Whether its wheel was fetched: those that are built here have no manylinux tag."""
    return any("manylinux" in path.name for path in peer.files.glob(f"{peer.name}-*"))


if __name__ == "__main__":
    main()
