"""What can be seen of a memory: as it is, plain, and refused where it is not there."""

import base64
import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import relive as rl
from relive.live import MemoryView
from relive.live.png import encode_png
from waiting import until

SCHEMA = rl.Schema(obs={"pose": rl.Field((3,)), "camera": rl.Field((12, 10), "uint8")}, action=rl.Field((2,)))


def memory_of(steps: int = 40, lanes: int | None = 2, capacity: int = 200) -> rl.Memory:
    memory = rl.Memory(SCHEMA, capacity, lanes, sampler=rl.Prioritized(), seed=0)
    count = lanes or 1
    for number in range(steps):
        rows = np.arange(count) * 1000 + number
        seen = {"pose": np.repeat(rows[:, None], 3, 1), "camera": np.zeros((count, 12, 10)) + rows[:, None, None] % 200}
        end = np.full(count, number % 10 == 9)
        step = {"obs": seen, "action": np.zeros((count, 2)), "reward": rows, "terminated": end & (number % 20 == 9),
                "truncated": end & (number % 20 == 19), "final_obs": seen}  # fmt: skip
        if lanes is None:
            step = {key: {k: v[0] for k, v in value.items()} if isinstance(value, dict) else value[0]
                    for key, value in step.items()}  # fmt: skip
        memory.append(**step)
    return memory


def ask(view: MemoryView, what: str, **given) -> dict:
    return json.loads(json.dumps(view.answer({"what": what, **given}), allow_nan=False))


@pytest.mark.parametrize("lanes", [2, None])
def test_a_summary_says_what_is_held(lanes: int | None) -> None:
    memory = memory_of(lanes=lanes)
    found = ask(MemoryView(memory), "summary")
    count = lanes or 1
    assert (found["steps"], found["lanes"], found["capacity"]) == (40 * count, count, 200)
    assert found["rows"] == found["inserted"] == 44 * count  # closing rows too
    assert found["evicted"] == 0
    assert found["census"]["rows"] == 40 * count
    assert found["census"]["draws"] == 0  # counted from now on
    memory.sample(8)
    assert ask(MemoryView(memory), "summary")["census"]["draws"] == 8

    assert {field["key"] for field in found["fields"]} >= {"obs/pose", "obs/camera", "action", "reward"}


def test_policy_versions_of_rows_held_and_drawn() -> None:
    schema = rl.Schema(obs=rl.Field(), policy_version=rl.Field((), "int64"))
    memory = rl.Memory(schema, 400, seed=0)
    for number in range(100):
        memory.append(obs=0.0, policy_version=number // 10, reward=0.0, terminated=False, truncated=False)
    view = MemoryView(memory)
    assert ask(view, "summary")["versions"] == {
        "held": {"least": 0, "quartiles": [2, 4, 7], "largest": 9},
        "drawn": None,
    }
    rows = {"lanes": np.zeros(99, int), "serials": np.arange(99)}
    drawn = np.concatenate([memory.sample(16).serials for _ in range(20)])
    counts = np.bincount(drawn, minlength=99)
    assert memory.inspect.draw_counts(rows).tolist() == counts.tolist()
    spread = ask(view, "summary")["versions"]["drawn"]
    versions = np.sort(drawn // 10)
    assert (spread["least"], spread["largest"]) == (versions[0], versions[-1])
    assert spread["quartiles"] == [int(versions[at]) for at in (79, 159, 239)]  # of 320 draws


def test_draws_are_counted_while_somebody_looks() -> None:
    memory = memory_of()
    rows = {"lanes": [0], "serials": [0]}
    view = MemoryView(memory, patience=0.3)
    ask(view, "summary")
    assert memory.inspect.draw_counts(rows) is not None
    until(lambda: memory.inspect.draw_counts(rows) is None)
    ask(view, "summary")
    assert memory.inspect.draw_counts(rows) is not None


def test_a_memory_may_be_closed_while_draws_are_counted(tmp_path: Path) -> None:
    memory = rl.Memory(rl.Schema(obs=rl.Field()), 100, storage=rl.Mapped(tmp_path / "rows"))
    failed: list[object] = []
    before, threading.excepthook = threading.excepthook, failed.append
    try:
        ask(MemoryView(memory, patience=0.1), "summary")
        memory.close()
        time.sleep(0.5)
    finally:
        threading.excepthook = before
    assert not failed


def test_draws_that_others_count_stay_counted() -> None:
    memory = memory_of()
    assert memory.inspect.count_draws() is False
    ask(MemoryView(memory, patience=0.05), "summary")
    time.sleep(0.3)
    assert memory.inspect.count_draws() is True


def test_episodes_and_their_steps() -> None:
    view = MemoryView(memory_of())
    found = ask(view, "episodes")
    assert len(found["episodes"]) == 8
    assert found["episodes"][0]["start"] >= found["episodes"][-1]["start"]
    one = next(each for each in found["episodes"] if each["lane"] == 1 and each["id"] == 2)
    assert (one["terminated"], one["truncated"], one["length"]) == (True, False, 10)
    assert one["return"] == sum(range(1020, 1030))
    episode = ask(view, "episode", lane=1, start=one["start"])
    assert episode["fields"]["obs/camera"] == {"shape": [12, 10], "picture": True}
    assert episode["fields"]["obs/pose"]["values"][0] == list(range(1020, 1030))
    assert episode["return"] == one["return"]
    only = ask(view, "episodes", lane=0)
    assert {each["lane"] for each in only["episodes"]} == {0}
    assert [lane["lane"] for lane in only["lanes"]] == [0]


def test_episodes_whose_first_steps_are_gone() -> None:
    memory = memory_of(steps=300, capacity=100)
    view = MemoryView(memory)
    cut = [each for each in ask(view, "episodes")["episodes"] if not each["whole"]]
    assert cut
    found = ask(view, "episode", lane=cut[0]["lane"], start=cut[0]["start"])
    assert found["first"] == memory.inspect.tails[cut[0]["lane"]] > cut[0]["start"]
    assert found["shown"] == found["length"] - (found["first"] - found["start"])


def test_a_row_and_its_picture() -> None:
    memory = memory_of()
    view = MemoryView(memory)
    found = ask(view, "row", lane=1, serial=3)
    assert found["stored"]["obs/pose"]["values"] == [1003, 1003, 1003]
    assert found["window"]["next_obs/pose"]["values"] == [1004, 1004, 1004]
    assert found["stored"]["obs/camera"]["cut"]
    picture = base64.b64decode(ask(view, "picture", field="obs/camera", lane=1, serial=3)["png"])
    assert picture == encode_png(np.full((12, 10), 1003 % 200, np.uint8))
    newest = ask(view, "row", lane=0, serial=int(memory.inspect.heads[0]) - 1)
    assert newest["window"] is None
    assert "why" in newest


def test_what_is_not_there_is_said() -> None:
    view = MemoryView(memory_of())
    for what, given in (
        ("nothing", {}),
        ("episode", {"lane": 0, "start": 5}),
        ("episode", {"lane": 9, "start": 0}),
        ("row", {"lane": 0, "serial": 10_000}),
        ("row", {"lane": -1, "serial": 0}),
        ("row", {}),
        ("picture", {"field": "obs/pose", "lane": 0, "serial": 0}),
        ("picture", {"field": "none", "lane": 0, "serial": 0}),
        ("film", {"lane": 0, "start": 0}),
        ("summary", {"lane": 3}),
        ("episodes", {"lane": "x"}),
    ):
        assert list(ask(view, what, **given)) == ["error"], (what, given)


def test_numbers_that_are_none_are_none() -> None:
    memory = rl.Memory(rl.Schema(obs=rl.Field()), 10, seed=0)
    memory.append(obs=np.nan, reward=1.0, terminated=True, truncated=False, final_obs=np.inf)
    found = ask(MemoryView(memory), "row", lane=0, serial=0)
    assert found["stored"]["obs"]["values"] == [None]
