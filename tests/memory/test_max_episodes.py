"""Memories that keep the newest episodes."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relive as rl
from refusals import refused

NAMED = rl.Schema(obs=rl.Field((), "int64"), reward=None)


def kept(memory: rl.Memory) -> list[tuple[int, int, int]]:
    """Ended episodes that are there: lane, number, length."""
    found = memory.episodes
    over = found.terminated | found.truncated
    return sorted(zip(found.lane[over].tolist(), found.id[over].tolist(), found.length[over].tolist(), strict=True))


@settings(max_examples=150, deadline=None)
@given(
    lanes=st.integers(1, 4),
    most=st.integers(1, 6),
    loose=st.booleans(),
    steps=st.lists(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=4, max_size=4), min_size=1, max_size=40),
    block=st.integers(1, 5),
)
def test_the_newest_episodes_are_those_that_ended_last(
    lanes: int, most: int, loose: bool, steps: list[list[int]], block: int
) -> None:
    schema = rl.Schema(obs=rl.Field(), next_obs=rl.Field()) if loose else rl.Schema(obs=rl.Field())
    memory = rl.Memory(schema, 100 * lanes, lanes, window=rl.Episodes(), max_episodes=most, seed=0)
    ended: list[tuple[int, int, int, int]] = []  # when, lane, number, length
    open_since, numbers = [0] * lanes, [0] * lanes
    for first in range(0, len(steps), block):
        ends = np.array(steps[first : first + block])[:, :lanes]
        values = {name: np.zeros(ends.shape) for name in ("obs", "next_obs", "final_obs", "reward")}
        names = ("obs", "next_obs", "reward") if loose else ("obs", "final_obs", "reward")
        memory.extend(**{name: values[name] for name in names}, terminated=ends == 1, truncated=ends == 2)
        for t, row in enumerate(ends, start=first):
            for lane in np.flatnonzero(row):
                ended.append((t, int(lane), numbers[lane], t + 1 - open_since[lane]))
                open_since[lane], numbers[lane] = t + 1, numbers[lane] + 1
        assert kept(memory) == sorted(episode[1:] for episode in sorted(ended)[-most:])
        assert len(memory) == sum(e[3] for e in sorted(ended)[-most:]) + sum(
            first + len(ends) - since for since in open_since
        )


def test_it_goes_on_after_saving_pickling_and_opening_again(tmp_path: Path) -> None:
    memory = rl.Memory(NAMED, 100, max_episodes=2, storage=rl.Mapped(tmp_path / "rows"), seed=0)
    written = iter(range(1000))

    def episodes(memory: rl.Memory, count: int) -> list[int]:
        for _ in range(count):
            memory.append(obs=next(written), terminated=True, truncated=False)
        return sorted(memory.inspect.newest(100).obs.tolist())

    assert episodes(memory, 3) == [1, 2]
    memory.save(tmp_path / "kept")
    again = rl.Memory.load(tmp_path / "kept")
    assert again.max_episodes == 2
    assert episodes(again, 3) == [4, 5]
    memory.close()
    opened = rl.Memory.open(rl.Mapped(tmp_path / "rows"), max_episodes=1)
    assert episodes(opened, 1) == [6]
    plain = rl.Memory(NAMED, 100, seed=0)
    plain.save(tmp_path / "plain")
    assert rl.Memory.load(tmp_path / "plain").max_episodes is None


def test_a_journal_says_what_was_forgotten(tmp_path: Path) -> None:
    memory = rl.Memory(NAMED, 100, max_episodes=2, seed=0)
    memory.save(tmp_path / "kept", journal="written")
    for number in range(5):
        memory.append(obs=number, terminated=True, truncated=False)
    assert kept(rl.Memory.load(tmp_path / "kept")) == kept(memory) == [(0, 3, 1), (0, 4, 1)]


def test_writers_of_their_own_keep_the_share_of_their_lanes() -> None:
    name = uuid.uuid4().hex
    with rl.Memory(NAMED, 200, 2, max_episodes=5, storage=rl.Shared(name), seed=0) as learner:
        actors = [rl.Memory.open(rl.Shared(name), max_episodes=5) for _ in range(2)]
        for lane, actor in enumerate(actors):
            for number in range(10):
                actor.append(lanes=lane, obs=number, terminated=True, truncated=False)
        found = learner.inspect.newest(100)
        assert [sorted(found.obs[found.lanes == lane].tolist()) for lane in range(2)] == [[7, 8, 9]] * 2
        for actor in actors:
            actor.close()


def test_threads_a_saver_and_readers_beside_it(tmp_path: Path) -> None:
    """Rows say who they are: the lane, the episode and the step. What is saved or drawn is whole."""
    lanes, most = 4, 12
    schema = rl.Schema(obs=rl.Field((3,), "int64"), reward=None)
    memory = rl.Memory(schema, 400 * lanes, lanes, window=rl.Episodes(), max_episodes=most, seed=0)
    stop, problems = threading.Event(), []

    def guarded(work: Any) -> threading.Thread:
        def go() -> None:
            try:
                while not stop.is_set():
                    work()
            except Exception as error:  # reported below
                problems.append(error)
                stop.set()

        return threading.Thread(target=go)

    def checked(found: rl.Memory) -> None:
        try:
            batch = found.sample(8)
        except rl.errors.NotEnoughRows:
            return
        for row in range(8):
            real = batch.obs[row, : batch.lengths[row]]
            assert (real[:, 0] == batch.lanes[row]).all()
            assert (real[:, 1] == real[0, 1]).all()
            assert real[:, 2].tolist() == list(range(len(real)))

    def save_and_look() -> None:
        memory.save(tmp_path / "kept")
        checked(rl.Memory.load(tmp_path / "kept"))

    threads = [guarded(lambda: checked(memory)), guarded(save_and_look), guarded(lambda: memory.episodes)]
    for thread in threads:
        thread.start()
    episode, step = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
    random = np.random.default_rng(0)
    for _ in range(20_000):
        ends = random.random(lanes) < 0.1
        obs = np.stack([np.arange(lanes), episode, step], 1)
        memory.append(obs=obs, terminated=ends, truncated=np.zeros(lanes, bool))
        step = np.where(ends, 0, step + 1)
        episode += ends
        if stop.is_set():
            break
    stop.set()
    for thread in threads:
        thread.join()
    assert not problems
    obs = np.zeros((lanes, 3), np.int64)
    memory.append(obs=obs, terminated=np.ones(lanes, bool), truncated=np.zeros(lanes, bool))
    assert len(kept(memory)) == most  # what a save held back was forgotten with a later episode


@pytest.mark.parametrize("most", [0, -1, 1.5, "many"])
def test_a_number_that_cannot_be(most: Any) -> None:
    with refused(rl.errors.OptionError, "max_episodes"):
        rl.Memory(NAMED, 100, max_episodes=most)
