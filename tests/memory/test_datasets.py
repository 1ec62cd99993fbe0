"""Datasets: there and back, to and from the formats of others, and read by their own libraries."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import minari
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer

import relive as rl
from refusals import refused


def flat_memory(steps: int = 200, **options: Any) -> rl.Memory:
    """One agent; the first episodes are overwritten, the last one is not finished."""
    schema = rl.Schema(obs=rl.Field((3,)), action=rl.Field((), "uint8"), note=rl.Field((2,), "int16"))
    memory = rl.Memory(schema, 150, seed=0, **options)
    rng = np.random.default_rng(0)
    for step in range(steps):
        memory.append(
            obs=rng.random(3),
            action=step % 5,
            note=[step, -step],
            reward=rng.random(),
            terminated=step % 13 == 12,
            truncated=step % 29 == 28 or step % 26 == 25,
            final_obs=rng.random(3),
        )
    return memory


def team_memory() -> rl.Memory:
    """Two kinds of agents, nested observations, rewards of their own, a shared state, two lanes."""
    schema = rl.Schema(
        hunter=rl.Group(
            obs={"eye": rl.Field((2, 4, 4), "uint8"), "place": rl.Field((2, 3))},
            action=rl.Field((2,), "uint8"),
            reward=rl.Field((2,)),
        ),
        prey=rl.Group(obs=rl.Field((1, 5)), action=rl.Field((1, 2)), reward=rl.Field((1,))),
        state=rl.Field((7,), "float64"),
    )
    schema.agents = {"hunter": ("ann", "bob"), "prey": ("cy",)}
    memory = rl.Memory(schema, 120, 2, seed=0)
    rng = np.random.default_rng(1)

    def seen(prefix: str = "") -> dict[str, Any]:
        return {
            "hunter": {
                f"{prefix}obs": {"eye": rng.integers(0, 255, (2, 2, 4, 4)), "place": rng.random((2, 2, 3))},
            },
            "prey": {f"{prefix}obs": rng.random((2, 1, 5))},
            f"{prefix}state": rng.random((2, 7)),
        }

    for step in range(50):
        now, final = seen(), seen("final_")
        values: dict[str, Any] = {
            "hunter": {**now["hunter"], **final["hunter"], "action": [[1, 2], [3, 4]], "reward": rng.random((2, 2))},
            "prey": {**now["prey"], **final["prey"], "action": rng.random((2, 1, 2)), "reward": rng.random((2, 1))},
            "state": now["state"],
            "final_state": final["final_state"],
        }
        memory.append(**values, terminated=[step % 9 == 8, False], truncated=[False, step % 7 == 6])
    return memory


def episodes_of(memory: rl.Memory) -> list[dict[str, Any]]:
    """Whole ended episodes through the episodes window, as plain data."""
    table = memory.episodes
    chosen = (table.terminated | table.truncated) & table.whole
    found = []
    for lane, start, length in zip(table.lane[chosen], table.start[chosen], table.length[chosen], strict=True):
        episode = {}
        for column in memory.schema:
            view = memory[column.key]
            view = view if view.ndim == 1 + len(column.shape) else view[lane]
            more = column.role == "observed" and not memory.schema.loose
            span = memory.capacity // memory.lanes
            episode[column.key] = view[(start + np.arange(length + more)) % span]
        found.append(episode)
    ends = zip(table.terminated[chosen].tolist(), table.truncated[chosen].tolist(), strict=True)
    return [{**episode, "ends": np.array(end)} for episode, end in zip(found, ends, strict=True)]


def same_episodes(one: rl.Memory, two: rl.Memory) -> None:
    first, second = episodes_of(one), episodes_of(two)
    assert len(first) == len(second) > 3
    for a, b in zip(first, second, strict=True):
        assert set(a) == set(b)
        for key in a:
            assert a[key].dtype == b[key].dtype
            np.testing.assert_array_equal(a[key], b[key], err_msg=key)


@pytest.mark.parametrize("name", ["data.npz", "minari-v0"])
@pytest.mark.parametrize("make", [flat_memory, team_memory])
def test_episodes_come_back_as_they_were(tmp_path: Path, name: str, make: Any) -> None:
    memory = make()
    count = memory.export(tmp_path / name)
    again = rl.Memory.from_dataset(tmp_path / name, seed=0)
    assert count == len(again.episodes.lane)
    assert again.schema == memory.schema
    assert again.schema.agents == memory.schema.agents
    same_episodes(memory, again)
    spans = rl.Memory.from_dataset(tmp_path / name, window=rl.Sequence(500, burn_in=3), seed=0)
    assert spans.ready == 0 or spans.sample(2)


def test_episodes_come_back_from_d4rl(tmp_path: Path) -> None:
    memory = flat_memory()
    memory.export(tmp_path / "data.hdf5")
    same_episodes(memory, rl.Memory.from_dataset(tmp_path / "data.hdf5", infos=["note"]))


def test_minari_reads_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    flat, team = flat_memory(), team_memory()
    flat.export(tmp_path / "flat-v0")
    team.export(tmp_path / "team-v0")
    dataset = minari.load_dataset("flat-v0")
    assert dataset.observation_space == gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    assert dataset.action_space == gym.spaces.Discrete(5)
    episodes = episodes_of(flat)
    assert dataset.total_episodes == len(episodes)
    assert dataset.total_steps == sum(len(episode["action"]) for episode in episodes)
    for theirs, ours in zip(dataset.iterate_episodes(), episodes, strict=True):
        np.testing.assert_array_equal(theirs.observations, ours["obs"])
        np.testing.assert_array_equal(theirs.actions, ours["action"])
        np.testing.assert_array_equal(theirs.rewards, ours["reward"])
        assert (theirs.terminations[-1], theirs.truncations[-1]) == tuple(ours["ends"])
        np.testing.assert_array_equal(theirs.infos["relive"]["note"], ours["note"])
        assert repr(theirs)
    together = minari.load_dataset("team-v0")
    assert set(together.observation_space.spaces) == {"hunter", "prey", "state"}
    for theirs, ours in zip(together.iterate_episodes(), episodes_of(team), strict=True):
        np.testing.assert_array_equal(theirs.observations["hunter"]["obs"]["eye"], ours["hunter/obs/eye"])
        np.testing.assert_array_equal(theirs.actions["prey"]["action"], ours["prey/action"])
        shared = ours["hunter/reward"].astype(float).sum(1) + ours["prey/reward"].astype(float).sum(1)
        np.testing.assert_allclose(theirs.rewards, shared)


SPACES = [
    (gym.spaces.Box(-1, 1, (4,), np.float64), gym.spaces.Discrete(3, start=-1)),
    (
        gym.spaces.Dict(
            image=gym.spaces.Box(0, 255, (40, 40, 3), np.uint8),
            pair=gym.spaces.Tuple([gym.spaces.Discrete(300), gym.spaces.MultiBinary(3)]),
        ),
        gym.spaces.Box(-1, 1, (2,), np.float32),
    ),
    (gym.spaces.MultiDiscrete([3, 5]), gym.spaces.MultiDiscrete([2, 70_000])),
]


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
@pytest.mark.parametrize("which", range(len(SPACES)))
def test_what_minari_writes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    observations, actions = SPACES[which]
    observations.seed(0)
    actions.seed(0)
    buffers = []
    for length in (3, 1, 6, 4):
        seen = [observations.sample() for _ in range(length + 1)]
        buffers.append(
            EpisodeBuffer(
                observations=stacked(seen),
                actions=stacked([actions.sample() for _ in range(length)]),
                rewards=list(np.arange(length, dtype=float)),
                terminations=[False] * (length - 1) + [length == 3],
                truncations=[False] * (length - 1) + [length != 3],
                infos={"score": np.arange(length + 1.0)},
            )
        )
    minari.create_dataset_from_buffers(
        "theirs-v0", buffers, observation_space=observations, action_space=actions, jpeg_encoding=False,
        algorithm_name="a", author="b", author_email="c", code_permalink="d", description="e",
    )  # fmt: skip
    memory = rl.Memory.from_dataset(tmp_path / "theirs-v0", window=rl.Episodes(), infos=["score"], float64=True)
    assert memory.episodes.length.tolist() == [3, 1, 6, 4]
    assert memory.episodes.terminated.tolist() == [True, False, False, False]
    if which == 0:
        assert memory.schema["obs"].dtype == np.float64
        assert memory.schema["action"].dtype == np.int8
        assert rl.Memory.from_dataset(tmp_path / "theirs-v0").schema["obs"].dtype == np.float32
        for ours, theirs in zip(episodes_of(memory), buffers, strict=True):
            np.testing.assert_array_equal(ours["obs"], theirs.observations)
            np.testing.assert_array_equal(ours["action"], theirs.actions)
            np.testing.assert_array_equal(ours["score"], theirs.infos["score"][1:])
    if which == 1:
        assert memory.schema["obs/pair/0"].dtype == np.uint16
        for ours, theirs in zip(episodes_of(memory), buffers, strict=True):
            np.testing.assert_array_equal(ours["obs/image"], theirs.observations["image"])
            np.testing.assert_array_equal(ours["obs/pair/1"], theirs.observations["pair"][1])
    if which == 2:
        assert memory.schema["action"].dtype == np.uint32


def stacked(values: list[Any]) -> Any:
    if isinstance(values[0], dict):
        return {key: stacked([value[key] for value in values]) for key in values[0]}
    if isinstance(values[0], tuple):
        return tuple(stacked([value[i] for value in values]) for i in range(len(values[0])))
    return np.stack(values)


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_jpegs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    space = gym.spaces.Box(0, 255, (40, 40, 3), np.uint8)
    buffer = EpisodeBuffer(
        observations=np.zeros((3, 40, 40, 3), np.uint8), actions=np.zeros(2, int), rewards=[0.0, 0.0],
        terminations=[False, True], truncations=[False, False], infos={},
    )  # fmt: skip
    minari.create_dataset_from_buffers(
        "jpeg-v0", [buffer], observation_space=space, action_space=gym.spaces.Discrete(2), jpeg_encoding=True,
        algorithm_name="a", author="b", author_email="c", code_permalink="d", description="e",
    )  # fmt: skip
    with refused(rl.errors.DatasetError, "obs"):
        rl.Memory.from_dataset(tmp_path / "jpeg-v0")


def d4rl_file(path: Path, *, following: bool, timeouts: bool = True) -> None:
    """0 1 2(terminal) | 10 11(timeout) | 20 21(cut off)."""
    obs = np.array([0, 1, 2, 10, 11, 20, 21], np.float32)[:, None]
    with h5py.File(path, "w") as file:
        file["observations"] = obs
        file["actions"] = obs.astype(np.float64) * 2
        file["rewards"] = obs[:, 0]
        file["terminals"] = np.array([0, 0, 1, 0, 0, 0, 0], np.float32)
        if timeouts:
            file["timeouts"] = np.array([0, 0, 0, 0, 1, 0, 0], bool)
        if following:
            file["next_observations"] = obs + 1
        file["infos/speed"] = np.arange(7.0)
        file["metadata/algorithm"] = b"SAC"


def transitions(memory: rl.Memory) -> list[tuple[float, float, bool, bool]]:
    rows = [
        (float(obs[0]), float(after[0]), bool(terminated), bool(truncated))
        for batch in memory.epoch(100)
        for obs, after, terminated, truncated in zip(
            batch.obs, batch.next_obs, batch.terminated, batch.truncated, strict=True
        )
    ]
    return sorted(rows)


def test_d4rl_without_next_observations(tmp_path: Path) -> None:
    """No next observation is made up: the last step of a timeout gives the final observation of the one before."""
    d4rl_file(tmp_path / "data.hdf5", following=False)
    memory = rl.Memory.from_dataset(tmp_path / "data.hdf5", infos=["speed"])
    assert transitions(memory) == [
        (0, 1, False, False), (1, 2, False, False), (2, 2, True, False), (10, 11, False, True), (20, 21, False, True),
    ]  # fmt: skip
    assert memory.schema["action"].dtype == np.float32
    assert memory["speed"][:3].tolist() == [0, 1, 2]


def test_d4rl_with_next_observations(tmp_path: Path) -> None:
    d4rl_file(tmp_path / "data.hdf5", following=True)
    memory = rl.Memory.from_dataset(tmp_path / "data.hdf5", float64=True)
    assert transitions(memory) == [
        (0, 1, False, False), (1, 2, False, False), (2, 3, True, False), (10, 11, False, False), (11, 12, False, True),
        (20, 21, False, False), (21, 22, False, True),
    ]  # fmt: skip
    assert memory.schema["action"].dtype == np.float64
    d4rl_file(tmp_path / "none.hdf5", following=True, timeouts=False)
    assert rl.Memory.from_dataset(tmp_path / "none.hdf5").episodes.length.tolist() == [3, 4]


def test_npz_with_the_names_of_d4rl(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "data.npz", observations=np.zeros((4, 2)), actions=np.zeros((4, 1)), rewards=np.ones(4),
        terminals=[False, True, False, False],
    )  # fmt: skip
    memory = rl.Memory.from_dataset(tmp_path / "data.npz", window=rl.Episodes(), sampler=rl.Prioritized(), seed=0)
    assert memory.episodes.length.tolist() == [2, 1]


def test_loose_rows_go_to_npz_and_d4rl(tmp_path: Path) -> None:
    schema = rl.Schema(obs=rl.Field((2,)), next_obs=rl.Field((2,)), action=rl.Field(()))
    memory = rl.Memory(schema, 50, seed=0)
    rng = np.random.default_rng(0)
    for step in range(40):
        memory.append(
            obs=rng.random(2), next_obs=rng.random(2), action=step, reward=1, terminated=step % 6 == 5, truncated=False
        )
    memory.export(tmp_path / "data.npz")
    same_episodes(memory, rl.Memory.from_dataset(tmp_path / "data.npz"))
    memory.export(tmp_path / "data.hdf5")
    same_episodes(memory, rl.Memory.from_dataset(tmp_path / "data.hdf5"))
    with refused(rl.errors.DatasetError, "Minari"):
        memory.export(tmp_path / "minari-v0")


@pytest.mark.parametrize("name", ["data.npz", "data.hdf5", "minari-v0"])
def test_no_episodes_at_all(tmp_path: Path, name: str) -> None:
    assert flat_memory(3).export(tmp_path / name) == 0
    assert len(rl.Memory.from_dataset(tmp_path / name)) == 0


def test_a_dataset_that_lies_about_its_steps_is_read_whole(tmp_path: Path) -> None:
    memory = flat_memory()
    memory.export(tmp_path / "minari-v0")
    metadata = tmp_path / "minari-v0" / "data" / "metadata.json"
    metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "total_steps": 7}))
    same_episodes(memory, rl.Memory.from_dataset(tmp_path / "minari-v0"))


def test_exporting_while_steps_are_appended(tmp_path: Path) -> None:
    """Episodes that are overwritten meanwhile are left out; none is mixed up."""
    schema = rl.Schema(obs=rl.Field((400,)), action=rl.Field((), "int32"))
    memory = rl.Memory(schema, 3000, seed=0)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            steps = number + np.arange(50)
            memory.extend(
                obs=np.repeat(steps[:, None], 400, 1),
                action=steps,
                reward=steps,
                terminated=np.arange(50) == 49,
                truncated=np.zeros(50, bool),
            )
            number += 50

    thread = threading.Thread(target=write)
    thread.start()
    try:
        while not memory.inspect.overwrites:
            pass
        for number in range(8):
            memory.export(tmp_path / f"{number}.npz")
    finally:
        stop.set()
        thread.join()
    for number in range(8):
        with np.load(tmp_path / f"{number}.npz") as file:
            obs, action = file["field/obs"], file["field/action"]
        np.testing.assert_array_equal(obs, np.repeat(action[:, None], 400, 1))
        assert (np.diff(action.reshape(-1, 50), axis=1) == 1).all()


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    with refused(rl.errors.OptionError, "kind", got="'csv'"):
        flat_memory().export(tmp_path / "data.csv", kind="csv")
    with refused(rl.errors.DatasetError, "a D4RL file"):
        team_memory().export(tmp_path / "data.hdf5")
    (tmp_path / "bad.npz").write_bytes(b"hello")
    (tmp_path / "bad.hdf5").write_bytes(b"hello")
    np.savez(tmp_path / "object.npz", schema=np.array([{}], object))
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["actions"] = [1.0]
    (tmp_path / "folder").mkdir()
    for name in ("none.npz", "bad.npz", "object.npz", "bad.hdf5", "other.hdf5", "folder"):
        with pytest.raises(rl.errors.DatasetError) as caught:
            rl.Memory.from_dataset(tmp_path / name)
        assert caught.value.problem.name.startswith(str(tmp_path / name))


def test_fields_of_any_name_come_back_as_infos(tmp_path: Path) -> None:
    schema = rl.Schema(obs=rl.Field(), action=rl.Field(), done=rl.Field(role="plain"), pixels=rl.Field(role="plain"))
    memory = rl.Memory(schema, 20, seed=0)
    for t in range(5):
        memory.append(obs=t, action=t, done=t, pixels=t, reward=1.0, terminated=t == 4, truncated=False)
    memory.export(tmp_path / "set.hdf5")
    again = rl.Memory.from_dataset(tmp_path / "set.hdf5", infos=["done", "pixels"])
    assert again["done"].tolist() == memory["done"].tolist()
    assert again.schema["pixels"].role == "plain"


def test_two_actions_go_there_and_back(tmp_path: Path) -> None:
    schema = rl.Schema(obs=rl.Field(), action=rl.Field((), "uint8"), move=rl.Field((2,), role="action"))
    memory = rl.Memory(schema, 20, seed=0)
    for t in range(5):
        memory.append(obs=t, action=t, move=[t, t], reward=1.0, terminated=t == 4, truncated=False)
    memory.export(tmp_path / "set")
    again = rl.Memory.from_dataset(tmp_path / "set")
    assert again.schema == schema
    assert again["move"].tolist() == memory["move"].tolist()
