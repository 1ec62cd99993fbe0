"""A census counts what a plain loop over all rows counts."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relive as rl
from refusals import refused
from relive.errors import OptionError

SCHEMA = rl.Schema(obs=rl.Field())


def oracle(memory: rl.Memory, draws: dict[tuple[int, int], int], priorities: np.ndarray | None) -> dict:
    span = memory.capacity // memory.lanes
    steps = set()
    episodes = memory.episodes
    for lane, start, length in zip(episodes.lane, episodes.start, episodes.length, strict=True):
        steps |= {(int(lane), serial) for serial in range(max(start, memory.inspect.tails[lane]), start + length)}
    ages, drawn, each, powers = (np.zeros(64, np.int64) for _ in range(4))
    held = []
    for lane, serial in steps:
        place = (int(memory.inspect.heads[lane]) - 1 - serial) * 64 // span
        ages[place] += 1
        count = draws.get((lane, serial), 0)
        drawn[place] += count
        each[0 if count == 0 else 1 + int(np.log2(count))] += 1
        if priorities is not None and priorities[lane, serial % span] > 0:
            held.append(priorities[lane, serial % span])
            powers[int(np.floor(np.log2(held[-1]))) + 32] += 1
    found = {"rows": len(steps), "ages": ages, "drawn_ages": drawn, "draws_each": each, "draws": drawn.sum()}
    if priorities is not None:
        held = np.array(held)
        found |= {"priorities": powers if len(held) else None, "total": held.sum(), "least": held.min(initial=9e9)}
        found |= {"most": held.max(initial=0), "effective": held.sum() ** 2 / (held**2).sum() if len(held) else None}
    return found


@settings(deadline=None, max_examples=60)
@given(st.data(), st.booleans())
def test_a_census_is_what_a_loop_counts(data: st.DataObject, prioritized: bool) -> None:
    lanes, span = data.draw(st.integers(1, 3)), data.draw(st.integers(8, 40))
    sampler = rl.Prioritized(1.0) if prioritized else rl.Uniform()
    memory = rl.Memory(SCHEMA, lanes * span, lanes, sampler=sampler, seed=0)
    memory.inspect.count_draws()
    draws: dict[tuple[int, int], int] = {}
    for _ in range(data.draw(st.integers(1, 60))):
        end = np.array(data.draw(st.lists(st.booleans(), min_size=lanes, max_size=lanes)))
        memory.append(obs=np.zeros(lanes), reward=np.zeros(lanes), terminated=end, truncated=end & False)
        if memory.ready and data.draw(st.booleans()):
            batch = memory.sample(data.draw(st.integers(1, 20)))
            for row in zip(batch.lanes.tolist(), batch.serials.tolist(), strict=True):
                draws[row] = draws.get(row, 0) + 1
            if prioritized:
                memory.update_priorities(batch, data.draw(st.floats(0.01, 100)) * np.ones(batch.serials.size))
    named = np.array(sorted(draws), np.int64).reshape(-1, 2)
    held = (named[:, 1] >= memory.inspect.tails[named[:, 0]]) if len(named) else np.zeros(0, bool)
    expected = [draws[tuple(row)] if there else 0 for row, there in zip(named.tolist(), held, strict=True)]
    assert memory.inspect.draw_counts({"lanes": named[:, 0], "serials": named[:, 1]}).tolist() == expected
    wanted = oracle(memory, draws, memory.priorities if prioritized else None)
    found = memory.inspect.census()
    assert found.stride == 1
    for key, value in wanted.items():
        if value is None or (key == "least" and value == 9e9):
            continue
        np.testing.assert_allclose(found[key], value, rtol=1e-9, err_msg=key)


def test_some_rows_stand_for_all() -> None:
    memory = rl.Memory(SCHEMA, 10_000, 2, sampler=rl.Prioritized(1.0), seed=0)
    zeros = np.zeros((5_000, 2))
    memory.extend(obs=zeros, reward=zeros, terminated=zeros > 0, truncated=zeros > 0)
    whole, some = memory.inspect.census(), memory.inspect.census(most=1_000)
    assert (whole.rows, whole.stride) == (10_000, 1)
    assert (some.rows, some.stride) == (1_000, 10)
    assert some.effective == pytest.approx(whole.effective, rel=0.01)
    assert whole.draws is None
    memory.inspect.count_draws()
    memory.sample(100)
    assert memory.inspect.census().draws == 100
    memory.inspect.count_draws(False)
    assert memory.inspect.census().drawn_ages is None
    with refused(OptionError, "most"):
        memory.inspect.census(0)


def test_a_census_beside_writers_and_learners() -> None:
    memory = rl.Memory(SCHEMA, 4_000, 2, sampler=rl.Prioritized(), seed=0)
    stop, wrong = threading.Event(), []

    def guarded(work) -> None:
        try:
            while not stop.is_set():
                work()
        except Exception as error:
            wrong.append(error)

    def learn() -> None:
        if memory.ready > 10:
            memory.update_priorities(memory.sample(32), np.ones(32))

    one = {"obs": np.zeros(2), "reward": np.zeros(2), "terminated": np.zeros(2, bool), "truncated": np.zeros(2, bool)}
    works = (
        lambda: memory.append(**one),
        learn,
        lambda: memory.inspect.count_draws(),
        lambda: memory.inspect.count_draws(False),
    )
    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for _ in range(200):
        found = memory.inspect.census()
        assert 0 <= found.rows <= 4_000
        assert found.ages.sum() == found.rows
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
