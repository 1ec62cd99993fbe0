"""Several nodes, as processes of this machine: shards, writers and learners that are killed, and nodes that go."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from telling_rows import LANE, SCHEMA, check_batch, steps_of, stored_tags

import relive as rl
from relive.distributed.ray_start import _on_loopback
from waiting import PATIENCE

pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"), pytest.mark.slow]
D = rl.distributed


@pytest.fixture
def nodes():
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    ray.shutdown()  # another module may have left one
    helpers = os.pathsep.join(str(Path(__file__).parents[1] / folder) for folder in ("distributed", "memory"))
    here = {"env_vars": {"PYTHONPATH": helpers}}
    with _on_loopback():
        args = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 100_000_000}
        cluster = Cluster(initialize_head=True, head_node_args=args)
        for _ in range(2):
            cluster.add_node(num_cpus=2, object_store_memory=100_000_000)
        ray.init(address=cluster.address, log_to_driver=False, runtime_env=here)
        yield cluster
        ray.shutdown()
        cluster.shutdown()


class WriterProcess:
    """A writer that says in a file what was acknowledged, and goes on from there in another life."""

    def __init__(self, shards: D.Shards, lane: int, folder: str) -> None:
        self._shards, self._lane, self._file = shards, lane, Path(folder) / f"lane-{lane}.json"

    def run(self, until: float) -> None:
        """Write until a time; every life begins after what the ones before may have sent."""
        found = json.loads(self._file.read_text()) if self._file.exists() else {"lives": [], "next": 0}
        begun = found["next"]
        writer = self._shards.writer([self._lane], block=10)
        number = begun
        self._write({**found, "next": begun + 1000})  # should this life end before anything is acknowledged
        while time.time() < until:
            for _ in range(50):
                writer.append(**steps_of([self._lane], number))
                number += 1
            found["next"] = number + 1000  # what is on its way now is not said to be acknowledged
            self._write(found)
            writer.flush()
            self._write({**found, "lives": [*found["lives"], [begun, number, writer.lost]]})
            time.sleep(0.005)

    def _write(self, found: dict) -> None:
        made = self._file.with_suffix(".new")
        made.write_text(json.dumps(found))
        made.replace(self._file)

    def pid(self) -> int:
        return os.getpid()


def kill_for_a_while(ray, shards, folder: Path, kills: int) -> dict[str, int]:
    """Writers and a learner under load, while shards and writers are killed in turn; what was killed."""
    lanes = range(shards.lanes)
    until = time.time() + 3600
    made = ray.remote(num_cpus=0, max_restarts=0, max_concurrency=2)(WriterProcess)
    writers = {lane: made.remote(shards, lane, str(folder)) for lane in lanes}
    running = {lane: writer.run.remote(until) for lane, writer in writers.items()}
    rng = np.random.default_rng(0)
    killed = {"shards": 0, "writers": 0}
    pids = {lane: ray.get(writer.pid.remote()) for lane, writer in writers.items()}
    with shards.learner(32, group=2) as batches:
        next_kill = time.monotonic() + 0.5
        while sum(killed.values()) < kills:
            batch = next(batches)
            check_batch(batch)
            batches.update_priorities(batch, rng.random(32))
            if time.monotonic() < next_kill:
                continue
            if sum(killed.values()) % 2:
                state = shards.state(timeout=2)["shards"][int(rng.integers(len(shards.handles)))]
                if state is None:
                    continue
                os.kill(state["pid"], signal.SIGKILL)
                killed["shards"] += 1
            else:
                lane = int(rng.integers(shards.lanes))
                os.kill(pids[lane], signal.SIGKILL)
                writers[lane] = made.remote(shards, lane, str(folder))
                running[lane] = writers[lane].run.remote(until)
                pids[lane] = ray.get(writers[lane].pid.remote())
                killed["writers"] += 1
            next_kill = time.monotonic() + float(rng.uniform(0.3, 1.0))
        for _ in range(200):
            check_batch(next(batches))
    for writer in writers.values():
        ray.kill(writer)
    return killed


def check_acknowledged(shards, folder: Path, tags) -> int:
    """Whatever a writer was told is stored is there once; returns how many rows that were."""
    assert set(tags.values()) == {1}
    count = 0
    for lane in range(shards.lanes):
        for first, last, lost in json.loads((folder / f"lane-{lane}.json").read_text())["lives"]:
            assert lost == 0
            # A life that ended amid an episode: its newest row is kept as the final observation of the one before.
            missing = [number for number in range(first, last) if lane * LANE + number not in tags]
            assert missing in ([], [last - 1]), (lane, first, last, missing[:5], len(missing))
            count += last - first
    return count


def lives(kills: int, nodes, tmp_path) -> None:
    import ray

    folder = tmp_path / "acknowledged"
    folder.mkdir()
    kept = {"durability": "journal", "folder": tmp_path / "kept", "save_every": 5.0}
    with D.Shards(SCHEMA, 8_000_000, shards=2, lanes=4, sampler=rl.Prioritized(), **kept) as shards:
        killed = kill_for_a_while(ray, shards, folder, kills)
        count = check_acknowledged(shards, folder, stored_tags(shards, tmp_path / "saved"))
    print(f"{killed}: {count:,} acknowledged rows are there once")
    assert count > 50 * kills


def test_what_was_acknowledged_is_there_once_after_kills(nodes, tmp_path) -> None:
    lives(6, nodes, tmp_path)


def test_what_was_acknowledged_is_there_once_after_a_hundred_kills(nodes, tmp_path) -> None:
    lives(100, nodes, tmp_path)


def test_a_node_that_goes_takes_nothing_with_it(nodes, tmp_path) -> None:
    """Its shard begins again on another node, from the journal that both see."""
    kept = {"durability": "journal", "folder": tmp_path / "kept"}
    with D.Shards(SCHEMA, 300_000, shards=6, lanes=6, **kept) as shards:  # so many that every node has some
        writer = shards.writer(block=10)
        for number in range(200):
            writer.append(**steps_of(writer.lanes, number))
        writer.flush()
        before = shards.state()["shards"]
        head = nodes.head_node.node_id
        gone = next(index for index, shard in enumerate(before) if shard["node"] != head)
        node = next(node for node in nodes.worker_nodes if node.node_id == before[gone]["node"])
        nodes.remove_node(node, allow_graceful=False)
        late, after = time.monotonic() + PATIENCE, before[gone]
        while (after is None or after["node"] == before[gone]["node"]) and time.monotonic() < late:
            after = shards.state(timeout=2)["shards"][gone]
        assert after is not None
        assert after["node"] != before[gone]["node"]
        for number in range(200, 400):
            writer.append(**steps_of(writer.lanes, number))
        writer.flush()
        tags = stored_tags(shards, tmp_path / "saved")
        assert tags == dict.fromkeys([lane * LANE + number for lane in range(6) for number in range(400)], 1)
        assert writer.lost == 0
