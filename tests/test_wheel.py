"""What is packed and released: the files of an sdist and of a wheel, the code for older processors, and what CI runs.

``make wheel`` builds the real thing and tries it without a compiler.
"""

from __future__ import annotations

import email
import itertools
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relive import _core

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BUILD = """
import sys
from scikit_build_core import build
folder, what = sys.argv[1:]
settings = {"wheel.cmake": "false", "wheel.py-api": "py3", "build-dir": folder + "/build"}
print(build.build_sdist(folder, settings) if what == "sdist" else build.build_wheel(folder, settings))
"""


LEFT_OUT = ("build", "dist", "runs", "site", ".venv")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources as in a new clone, with a file in each folder that must not be packed."""
    folder = tmp_path_factory.mktemp("sources") / "relive"
    others = shutil.ignore_patterns(
        *LEFT_OUT, ".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "images", "*.so"
    )
    shutil.copytree(ROOT, folder, ignore=others)
    for name in LEFT_OUT:
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "left.txt").touch()
    return folder


def built(source: Path, folder: Path, what: str) -> Path:
    """An sdist, or a wheel without the compiled core."""
    command = [sys.executable, "-c", BUILD, str(folder), what]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True)
    return folder / done.stdout.splitlines()[-1]


def test_the_sdist_has_what_a_build_needs(clone: Path, tmp_path: Path) -> None:
    with tarfile.open(built(clone, tmp_path, "sdist")) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "core").rglob("*") if path.is_file()}
    assert sources | {"CMakeLists.txt", "pyproject.toml", "LICENSE", "README.md", "tests/core/test_hash.py"} <= names
    assert {name.split("/")[0] for name in names}.isdisjoint({*LEFT_OUT, "bench", ".ci", ".github", ".git"})
    assert not [name for name in names if name.endswith((".so", ".pyc")) or "/." in name]


def test_the_wheel_has_the_package_and_nothing_else(clone: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(built(clone, tmp_path, "wheel")) as file:
        names = {name for name in file.namelist() if not name.endswith("/")}
        texts = {name.partition("/")[2]: file.read(name).decode() for name in names if ".dist-info/" in name}
    version = PROJECT["project"]["version"]
    package = ROOT / "src/relive"
    ours = {
        f"relive/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
    }
    assert {name for name in names if ".dist-info/" not in name} == ours
    assert {"relive/py.typed", "relive/_core.pyi", "relive/web/page/index.html"} <= ours
    assert all(name.startswith(("relive/", f"relive-{version}.dist-info/")) for name in names)
    about = email.message_from_string(texts["METADATA"])
    assert (about["Name"], about["Version"], about["License-Expression"]) == ("relive", version, "Apache-2.0")
    assert about["Requires-Python"] == ">=3.11"
    always = [each for each in about.get_all("Requires-Dist", []) if "extra ==" not in each]
    assert [re.split(r"[<>=]", each)[0] for each in always] == ["numpy"]
    assert set(about.get_all("Provides-Extra", [])) == set(PROJECT["project"]["optional-dependencies"])
    commands = ConfigParser()
    commands.read_string(texts["entry_points.txt"])
    assert dict(commands["console_scripts"]) == PROJECT["project"]["scripts"]
    assert "licenses/LICENSE" in texts


@pytest.mark.slow
def test_the_sdist_builds_and_runs_without_a_compiler(clone: Path, tmp_path: Path) -> None:
    sdist = built(clone, tmp_path, "sdist")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(sdist)]
    subprocess.run(command, cwd=tmp_path, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        (core,) = [name for name in file.namelist() if name.endswith((".so", ".pyd"))]
    stable = sys.version_info >= (3, 12)
    assert ("-cp312-abi3-" in wheel.name) == stable
    assert (core == "relive/_core.abi3.so") == stable
    command = [sys.executable, str(ROOT / "tools/check_wheel.py"), "--no-tests", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "README's first snippet runs" in done.stdout


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "tanh"])
def test_code_for_older_processors_gives_the_same(activation: str) -> None:
    """On a processor with AVX2 two kernels are compared; elsewhere there is one."""
    random = np.random.default_rng(0)
    sizes = [19, 64, 33, 5]
    width = sum((before + 1) * after for before, after in itertools.pairwise(sizes))
    flat = (random.normal(size=(3, width)) / 8).astype(np.float32)
    inputs = random.normal(size=(3, 61, sizes[0])).astype(np.float32)
    found = []
    for plain in (False, True):
        outputs = np.empty((3, 61, sizes[-1]), np.float32)
        _core.Perceptrons(3, sizes, activation, plain=plain).forward(flat, inputs, None, outputs)
        found.append(outputs)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_all_packages_of_an_extra_are_found_and_pinned() -> None:
    """What tools/setup.py installs is what ``pip install '.[dev]'`` would, in the versions of constraints.txt."""
    needs = runpy.run_path(str(ROOT / "tools/setup.py"))["needs"]
    project = PROJECT["project"]
    dev, train = set(needs(project, "dev")), set(needs(project, "train"))
    assert {"numpy>=1.26", "torch>=2.6", "gymnasium>=1.1", "tyro>=0.9.5"} <= train <= dev
    assert not [each for each in dev if each.startswith("relive")]
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert {re.split(r"[\[<>=]", each)[0].lower() for each in dev} <= pinned


def workflows() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    return {path.name: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").glob("*.yml")}


def test_ci_runs_what_there_is() -> None:
    found = workflows()
    assert set(found) >= {"test.yml", "wheels.yml"}
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for name, workflow in found.items():
        assert workflow["permissions"], name
        for job in workflow["jobs"].values():
            for needed in job.get("needs", []):
                assert needed in workflow["jobs"]
            for step in job["steps"]:
                assert ("uses" in step) != ("run" in step)
                if "uses" in step:
                    assert re.fullmatch(r"[\w./-]+@(v\d+|release/v\d+)", step["uses"]), step
                for target in re.findall(r"\bmake ([\w-]+)", step.get("run", "")):
                    assert target in targets, target
                for path in re.findall(r"\b((?:tools|tests|bench)/[\w./-]+)", step.get("run", "")):
                    assert (ROOT / path).exists(), path


def test_ci_knows_the_same_pythons() -> None:
    tested = workflows()["test.yml"]["jobs"]["linux"]["strategy"]["matrix"]["python"]
    wheels = [each.removesuffix("-*") for each in PROJECT["tool"]["cibuildwheel"]["build"]]
    assert wheels == [f"cp{each.replace('.', '')}" for each in tested]
    assert PROJECT["project"]["requires-python"] == f">={tested[0]}"
    assert PROJECT["tool"]["scikit-build"]["wheel"]["py-api"] == "cp312"


def test_the_citation_is_of_this_version() -> None:
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == PROJECT["project"]["version"]
    assert citation["license"] == PROJECT["project"]["license"]
