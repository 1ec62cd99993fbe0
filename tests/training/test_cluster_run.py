"""Runs on a Ray cluster: what is killed is started again, what was lost is said, and a run goes on."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from safetensors.torch import save

import relive as rl
from refusals import refused
from relive.agents.maddpg import MADDPGConfig
from relive.agents.mappo import MAPPOConfig
from relive.agents.qmix import QMIXConfig
from relive.distributed.tally import Tally
from relive.errors import OptionError
from relive.live import ask
from relive.training import checkpoint
from relive.training.environments import make_env
from relive.training.sharded import ShardedMemory
from waiting import until

pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.usefixtures("ray")]

SMALL = MADDPGConfig(hidden=(16,), batch_size=64, learning_starts=500, capacity=20_000, update_every=50, per_alpha=0.6)
HOW = {"num_envs": 8, "actors": 2, "shards": 2, "eval_episodes": 5, "eval_every": 2_000, "video": False, "log": ()}


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_on_a_cluster_learns_from_what_actors_wrote(tmp_path) -> None:
    seen = []

    class Looker:
        """Asks as the page does, once there are rows."""

        def on_step(self, run) -> None:
            if run.steps > 1_500 and not seen:
                seen.append(ask(run.folder, {"what": "summary"}))
                seen.append(ask(run.folder, {"what": "row", "lane": 0, "serial": 0}))

    how = {**HOW, "callbacks": [Looker()]}
    done = rl.train(SMALL, "simple_spread", folder=tmp_path / "run", steps=3_000, cluster="local", **how)
    assert len(seen[0]["shards"]) == 2
    assert sum(shard["steps"] for shard in seen[0]["shards"]) > 1_000
    assert "error" in seen[1]
    assert done.steps >= 3_000
    assert abs(done.updates - (done.steps - 500) / 50) <= 2
    found = lines(tmp_path / "run")
    assert next(line["step"] for line in found) == 0
    assert {"return", "cluster/policy_age", "cluster/actor_lag", "cluster/lost_rows"} <= set(found[-1])
    assert found[-1]["step"] == done.steps
    assert found[-1]["cluster/lost_rows"] == 0
    assert 0 < found[-1]["cluster/policy_age"] < done.updates + 2
    assert not (tmp_path / "run" / "shards").exists()  # its checkpoint has all rows
    again = rl.resume(tmp_path / "run", steps=4_000)
    assert again.steps >= 4_000
    assert again.updates > done.updates
    found = rl.load_policy(tmp_path / "run")
    assert found is not None


@pytest.mark.slow
def test_episodes_are_learned_from_too(tmp_path) -> None:
    config = QMIXConfig(buffer_size=100, batch_size=4, hidden=16)
    done = rl.train(config, "marines_1v1", folder=tmp_path / "run", steps=2_000, cluster="local", **HOW)
    assert done.updates > 5


def test_actors_and_shards_that_are_killed_are_started_again(tmp_path, ray) -> None:
    class Killer:
        """Kills an actor, then a shard, while the run goes."""

        def __init__(self) -> None:
            self.at, self.killed = [1_000, 2_000], []

        def on_step(self, run) -> None:
            if not self.at or run.steps < self.at[0]:
                return
            self.at.pop(0)
            assert isinstance(run.memory, ShardedMemory)
            pid = run.memory.shards.state()["shards"][0]["pid"]
            if not self.killed:  # an actor that the same part of Ray started
                parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
                search = ["pgrep", "-P", parent, "-f", "ray::_RemoteActor"]
                pid = int(subprocess.run(search, capture_output=True, text=True).stdout.split()[0])
            os.kill(pid, signal.SIGKILL)
            self.killed.append(pid)

    killer = Killer()
    folder = tmp_path / "run"
    how = {**HOW, "cluster": "local", "callbacks": [killer], "durability": "none"}
    done = rl.train(SMALL, "simple_spread", folder=folder, steps=5_000, **how)
    assert len(killer.killed) == 2
    assert done.steps >= 5_000
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert {event["what"] for event in events} == {"actor", "shard"}
    last = lines(folder)[-1]
    assert (last["cluster/lost_actors"], last["cluster/lost_shards"]) == (1, 1)
    assert last["cluster/lost_rows"] == sum(event["rows"] for event in events) > 0


@pytest.mark.slow
def test_a_learner_that_is_killed_goes_on_from_its_checkpoint(tmp_path) -> None:
    folder = tmp_path / "run"
    command = [
        sys.executable, "-m", "relive", "train", "maddpg", "simple_spread", "--cluster", "local", "--actors", "2",
        "--shards", "2", "--num-envs", "8", "--steps", "1000000", "--save-every", "2000", "--eval-every", "2000",
        "--eval-episodes", "5", "--hidden", "16", "--batch-size", "64", "--learning-starts", "500",
        "--capacity", "20000", "--folder", str(folder), "--no-video",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: (folder / "checkpoint.json").exists())
    time.sleep(1)
    process.kill()
    process.wait()
    taken = checkpoint.load_checkpoint(folder)["steps"]
    assert taken >= 2_000
    done = rl.resume(folder, steps=taken + 2_000)
    assert done.steps >= taken + 2_000
    assert [line["step"] for line in lines(folder)] == sorted({line["step"] for line in lines(folder)})


def test_what_cannot_be_on_a_cluster_is_refused(tmp_path) -> None:
    with refused(OptionError, "cluster", got="local"):
        rl.train(MAPPOConfig(), "simple_spread", folder=tmp_path / "a", steps=100, cluster="local", **HOW)
    with refused(OptionError, "num_envs", got="8"):
        rl.train(SMALL, "simple_spread", folder=tmp_path / "b", steps=100, cluster="local", **{**HOW, "actors": 3})
    with refused(OptionError, "lanes", got="8"):
        rl.train(SMALL, "simple_spread", folder=tmp_path / "c", steps=100, cluster="local", **{**HOW, "shards": 3})
    with refused(OptionError, "durability", got="'some'"):
        rl.train(SMALL, "simple_spread", folder=tmp_path / "d", steps=100, cluster="local", durability="some", **HOW)


def test_an_actor_whose_policy_is_too_old_waits() -> None:
    """The actor's part alone: weights that are more than ``max_age`` versions old are not acted with."""
    from relive.training.cluster import _RemoteActor
    from relive.training.collect import ActorTask
    from relive.training.settings import RunConfig

    class Rows:
        lanes, lost, tally, versions = (0, 1), 0, Tally(), []

        def append(self, *, policy_version, **_) -> None:
            self.versions.append(policy_version.tolist())

        def __enter__(self):
            return self

        def __exit__(self, *_) -> None: ...

    class Fake:
        def writer(self, *_, **__) -> Rows:
            return Rows()

    run = RunConfig(num_envs=2, max_age=3)
    actor = _RemoteActor(ActorTask(0, "simple_spread", SMALL, run, (0, 2), 1), Fake())  # type: ignore[arg-type]
    env = make_env(SMALL, "simple_spread", 1, {})
    weights = save(SMALL.learner(env, device="cpu", seed=0).weights().tensors)
    thread = threading.Thread(target=actor.act)
    thread.start()
    actor.exchange(weights, 5, 9, 0, 10, False)
    time.sleep(1.0)
    assert actor.exchange(None, 5, 9, 0, 10, False)["steps"] == 0
    actor.exchange(weights, 6, 9, 0, 10, False)
    until(lambda: actor.exchange(None, 6, 9, 0, 10, False)["steps"])
    actor.exchange(None, 6, 9, 0, 0, True)
    thread.join()
    assert Rows.versions
    assert all(version == [6, 6] for version in Rows.versions)
