"""Our modules in the place of XuanCe's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xuance_real import installed


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=env, check=False)


PROGRAM = """
import sys
import numpy as np
import xuance.common
from xuance.common import DummyOffPolicyBuffer, MARL_OffPolicyBuffer, OfflineBuffer_D4RL, memory_tools
from xuance.common.memory_tools_marl import IC3Net_OnPolicyBuffer_RNN
import gymnasium
space = gymnasium.spaces.Box(-1, 1, (3,))
buffer = DummyOffPolicyBuffer(space, space, None, 2, 100, 4)
for _ in range(3):
    buffer.store(np.zeros((2, 3)), np.zeros((2, 3)), np.ones(2), np.zeros(2), np.ones((2, 3)))
kinds = (DummyOffPolicyBuffer, MARL_OffPolicyBuffer, OfflineBuffer_D4RL, IC3Net_OnPolicyBuffer_RNN)
assert all(kind.__module__.startswith("relive.compat.xuance.") for kind in kinds)
assert xuance.common.memory_tools is memory_tools and xuance.common.memory_tools.Buffer
print(*buffer.sample(), *sys.argv[1:])
"""


def test_a_program_of_theirs_runs_unchanged(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = ("-m", "relive.compat.command", "xuance", "--")
    done = python(installed(), *command, str(tmp_path / "program.py"), "--env", "CartPole")
    assert done.returncode == 0, done.stderr
    replaced = "relive-with: the memories of XuanCe 1.4.4 (xuance.common.memory_*) are those of relive.compat.xuance"
    assert replaced in done.stderr
    assert done.stdout.split() == [
        "obs",
        "actions",
        "obs_next",
        "rewards",
        "terminals",
        "batch_size",
        "--env",
        "CartPole",
    ]
    plain = python(installed(), str(tmp_path / "program.py"))
    assert "AssertionError" in plain.stderr  # its own memories, without the command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--", "no_such.py"), "SCRIPT must be a file, got no_such.py."),
        (("--",), "SCRIPT must be a file, got nothing after --."),
        (("--version", "2.0", "--", __file__), "version must be from 1.0 to 1.4 of XuanCe, got 2.0."),
    ],
)
def test_what_the_command_refuses(arguments: tuple[str, ...], message: str) -> None:
    done = python(installed(), "-m", "relive.compat.command", "xuance", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_without_xuance(tmp_path: Path) -> None:
    done = python(tmp_path, "-m", "relive.compat.command", "xuance", "--", __file__)
    assert done.returncode == 2
    assert "xuance must be installed, or its folder on the path, got none." in done.stderr


def test_install_comes_first() -> None:
    program = "import xuance.common\nfrom relive.compat.xuance import install\ninstall()"
    done = python(installed(), "-c", program)
    assert "OptionError: install must be called before xuance is imported, got afterwards." in done.stderr


@pytest.mark.parametrize(
    ("version", "told", "generation"),
    [("1.1.0", "1.0.11", "v1_1.one_agent"), ("1.2.6", "1.2.6", "off_policy"), ("1.3.1", "1.3.1", "off_policy")],
)
def test_which_generation_it_is(version: str, told: str, generation: str) -> None:
    program = f"""
from relive.compat.xuance import install
assert install() == {told!r}
import sys, types
package = types.ModuleType("xuance")
package.__path__ = [{str(installed(version) / "xuance")!r}]
common = types.ModuleType("xuance.common")
common.__path__ = [{str(installed(version) / "xuance" / "common")!r}]
sys.modules |= {{"xuance": package, "xuance.common": common}}  # what else they import is not needed
from xuance.common.memory_tools import DummyOffPolicyBuffer
from xuance.common.memory_tools_marl import MARL_OnPolicyBuffer
print(DummyOffPolicyBuffer.__module__)
if {version!r} < "1.3":
    from xuance.common.memory_tools_marl import COMA_Buffer
"""
    done = python(installed(version), "-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"relive.compat.xuance.{generation}"
