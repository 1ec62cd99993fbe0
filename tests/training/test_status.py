"""How a run says that it stands, and what can be seen of it while it goes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import relive
from relive.agents.maddpg import MADDPGConfig
from relive.training.status import read_status, recorded
from waiting import until

SMALL = MADDPGConfig(hidden=(16,), batch_size=64, learning_starts=500, capacity=20_000, update_every=50)


HOW = {"num_envs": 8, "eval_episodes": 5, "eval_every": 100_000, "video": False, "log": ()}


def test_going_done_stopped_and_failed(tmp_path: Path) -> None:
    with recorded(tmp_path) as status:
        assert read_status(tmp_path).state == "going"
        status.state = "done"
    assert read_status(tmp_path).state == "done"
    with pytest.raises(ValueError, match="no"), recorded(tmp_path):
        raise ValueError("no")
    assert read_status(tmp_path).state == "failed"
    assert read_status(tmp_path).error == "ValueError: no"
    done = relive.train(SMALL, "simple_spread", folder=tmp_path / "a", steps=1_000, **HOW)
    assert read_status(done.folder).state == "done"

    class Stop:
        def on_step(self, run) -> None:
            if run.steps > 500:
                run.stop()

    stopped = relive.train(SMALL, "simple_spread", folder=tmp_path / "b", steps=1_000, callbacks=[Stop()], **HOW)
    assert read_status(stopped.folder).state == "stopped"
    relive.resume(stopped.folder)
    assert read_status(stopped.folder).state == "done"


def test_a_run_that_was_killed_is_known_by_its_process(tmp_path: Path) -> None:
    code = "import sys,time; from pathlib import Path; from relive.training.status import recorded\n"
    code += "with recorded(Path(sys.argv[1])): print('there', flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"there\n"
    assert read_status(tmp_path).state == "going"
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: read_status(tmp_path).state == "killed")  # also while nobody has waited for it
    child.wait()
    child.stdout.close()
    about = json.loads((tmp_path / "status.json").read_text())
    (tmp_path / "status.json").write_text(json.dumps({**about, "pid": os.getpid()}))  # a number that was given again
    assert read_status(tmp_path).state == "killed"
    (tmp_path / "status.json").write_text(json.dumps({**about, "host": "elsewhere"}))
    assert read_status(tmp_path).state == "going"
    for broken in ("{", "[]", '{"state": 3}', json.dumps({**about, "pid": "x"})):
        (tmp_path / "status.json").write_text(broken)
        assert read_status(tmp_path).state in ("stopped", "killed")
