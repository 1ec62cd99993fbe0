"""Flags, ends and lanes that another thread changes while they are read: refused or stored, never half."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from waiting import PATIENCE

CHANGING = """
import sys, threading, numpy as np, relive as rl
memory = rl.Memory(rl.Schema(obs=rl.Field((2,))), 400_000, 2, seed=0)
terminated, truncated = np.zeros((100_000, 2), bool), np.zeros((100_000, 2), bool)
lanes = np.array([0, 1])
final = np.zeros((100_000, 2, 2), np.float32)
obs = np.ones((100_000, 2, 2), np.float32)
stop = threading.Event()

def change():
    while not stop.is_set():
        terminated[:] = True
        lanes[:] = 1 << 40
        terminated[:] = False
        lanes[:] = [0, 1]

threads = [threading.Thread(target=change, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(150):
    try:
        memory.extend(obs=obs, reward=np.zeros((100_000, 2)), terminated=terminated, truncated=truncated,
                      final_obs=final)
        memory.extend(lanes=lanes, obs=obs[:500], reward=np.zeros((500, 2)), terminated=terminated[:500],
                      truncated=truncated[:500], final_obs=final[:500])
    except rl.errors.OptionError:
        pass
    assert set(np.unique(memory.sample(1000).obs)) <= {1.0}
stop.set()
for thread in threads:
    thread.join()
memory.save(sys.argv[1])
assert len(rl.Memory.load(sys.argv[1])) == len(memory)
"""


FLIPPING = """
import sys, threading, numpy as np, relive as rl
sys.setswitchinterval(1e-5)
memory = rl.Memory(rl.Schema(obs=rl.Field((2,))), 400_000, 2, seed=0)
flag, none, obs = np.zeros((2000, 2), bool), np.zeros((2000, 2), bool), np.ones((2000, 2, 2), np.float32)

def flip():
    while True:
        flag[:] = True
        flag[:] = False

for _ in range(2):
    threading.Thread(target=flip, daemon=True).start()
for _ in range(1500):
    try:
        memory.extend(obs=obs, reward=np.zeros((2000, 2)), terminated=none, truncated=flag)
    except rl.errors.StepError as error:
        assert [problem.name for problem in error.problems] == ["final_obs"], error
"""


def test_ends_that_change_are_refused_or_stored() -> None:
    """Steps that are cut off need a final observation: whoever changes that meanwhile gets one answer or the other."""
    subprocess.run([sys.executable, "-c", FLIPPING], check=True, timeout=PATIENCE)


def test_flags_and_lanes_that_change_while_they_are_read(tmp_path: Path) -> None:
    """What was counted is what is written: no foreign bytes, no crash, and the snapshot loads."""
    subprocess.run([sys.executable, "-c", CHANGING, str(tmp_path / "saved")], check=True, timeout=PATIENCE)
