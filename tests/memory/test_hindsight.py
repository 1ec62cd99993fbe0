"""Hindsight against rows that say who they are."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relive as rl
from relive.errors import OptionError, SchemaError
from relive.memory.batch import flat

GAMMA = 0.9
GOAL = rl.Field((3,))
SCHEMA = rl.Schema(obs={"achieved_goal": GOAL, "desired_goal": GOAL, "observation": rl.Field()}, reward=rl.Field())


def reached(achieved: Any, desired: Any) -> Any:
    return (achieved == desired).all(axis=1)


def reward(achieved: Any, desired: Any) -> Any:
    return np.where(reached(achieved, desired), 100.0, 200.0)


def filled(
    lengths: list[list[int]], window: rl.Window, capacity: int = 4200, seed: int = 0, **options: Any
) -> rl.Memory:
    """Lanes of episodes: what is achieved is the lane, the episode and the step; the last of a lane goes on.

    Episodes of an even length terminate, others are truncated.
    """
    memory = rl.Memory(SCHEMA, capacity=capacity, lanes=len(lengths), window=window, seed=seed, **options)
    for lane, each in enumerate(lengths):
        for episode, length in enumerate(each):
            for t in range(length):
                last = t == length - 1 and episode < len(each) - 1
                ends = {"terminated": [last and length % 2 == 0], "truncated": [last and length % 2 == 1]}
                final = {"final_obs": seen(lane, episode, t + 1)} if last else {}
                memory.append(obs=seen(lane, episode, t), reward=[-1.0], lanes=[lane], **ends, **final)
    return memory


def seen(lane: int, episode: int, t: int) -> dict[str, Any]:
    goal = [[lane, episode, t]]
    return {"achieved_goal": goal, "desired_goal": [[-1, -1, -1]], "observation": [t]}


LANES = st.lists(st.lists(st.integers(1, 7), min_size=2, max_size=6), min_size=1, max_size=4)


@settings(deadline=None, max_examples=60)
@given(lanes=LANES, strategy=st.sampled_from(["future", "final", "episode"]), seed=st.integers(0, 9))
def test_goals_are_of_the_same_episode(lanes: list[list[int]], strategy: Any, seed: int) -> None:
    memory = filled(lanes, rl.Hindsight(strategy, 4, reward=reward, terminated=reached, gamma=GAMMA), seed=seed)
    batch = memory.sample(64)
    for row in range(64):
        lane, episode, t = batch.obs.achieved_goal[row].astype(int)
        assert batch.next_obs.achieved_goal[row].tolist() == [lane, episode, t + 1]
        assert batch.obs.observation[row] == t
        goal = batch.obs.desired_goal[row]
        assert goal.tolist() == batch.next_obs.desired_goal[row].tolist()
        length, going = lanes[lane][episode], episode == len(lanes[lane]) - 1
        last = length - 1 if going else length  # the newest step has no outcome yet
        if not batch.relabelled[row]:
            assert goal.tolist() == [-1, -1, -1]
            assert batch.reward[row] == -1
            ended = t == length - 1 and not going
            assert batch.terminated[row] == (ended and length % 2 == 0)
            assert batch.truncated[row] == (ended and length % 2 == 1)
            assert batch.discount[row] == pytest.approx(0.0 if batch.terminated[row] else GAMMA)
            continue
        assert goal[:2].tolist() == [lane, episode]
        if strategy == "final":
            assert goal[2] == last
        else:
            assert (t + 1 if strategy == "future" else 1) <= goal[2] <= last
        mine = goal[2] == t + 1
        assert batch.reward[row] == (100 if mine else 200)
        assert batch.terminated[row] == mine
        assert batch.discount[row] == pytest.approx(0.0 if mine else GAMMA)
        assert batch.truncated[row] == (t == length - 1 and not going and length % 2 == 1 and not mine)


def chi_square(found: Any, wanted: Any) -> float:
    return float(((found - wanted) ** 2 / wanted).sum())


def test_how_often_and_from_where() -> None:
    """Shares of k / (k + 1), and goals of the future drawn evenly: chi-square, one false alarm in a thousand."""
    batch = filled([[6, 2]], rl.Hindsight("future", 4, reward=reward), seed=1).sample(30_000)
    count = int(batch.relabelled.sum())
    assert chi_square(np.array([count, 30_000 - count]), np.array([24_000, 6_000])) < 10.83
    mine = batch.relabelled & (batch.obs.achieved_goal[:, 1] == 0) & (batch.obs.achieved_goal[:, 2] == 2)
    goals = np.bincount(batch.obs.desired_goal[mine, 2].astype(int), minlength=7)
    assert goals[:3].sum() == 0
    assert chi_square(goals[3:], np.full(4, mine.sum() / 4)) < 16.27
    whole = filled([[6, 2]], rl.Hindsight("episode", 4, reward=reward), seed=1).sample(30_000)
    mine = whole.relabelled & (whole.obs.achieved_goal[:, 1] == 0)
    goals = np.bincount(whole.obs.desired_goal[mine, 2].astype(int), minlength=7)
    assert chi_square(goals[1:], np.full(6, mine.sum() / 6)) < 20.52


def test_ends_stay_without_a_judge_of_them() -> None:
    batch = filled([[2, 3, 1]], rl.Hindsight("future", 1e9, reward=reward)).sample(200)
    last = (batch.obs.achieved_goal[:, 1] == 0) & (batch.obs.achieved_goal[:, 2] == 1)
    assert (batch.discount[last] == 0).all()
    assert (batch.discount[~last] > 0).all()
    assert batch.relabelled.all()


def test_what_was_overwritten_is_no_goal() -> None:
    for strategy in ("future", "episode", "final"):
        memory = filled([[30, 2]], rl.Hindsight(strategy, 9, reward=reward), capacity=20)  # type: ignore[arg-type]
        batch = memory.sample(500)
        old = batch.relabelled & (batch.obs.achieved_goal[:, 1] == 0)
        assert (batch.obs.desired_goal[old, 2] > batch.obs.achieved_goal[old, 2]).all()


def test_the_same_state_draws_the_same() -> None:
    memory = filled([[5, 4, 3]], rl.Hindsight(reward=reward))
    memory.sample(8)
    state = memory.random_state
    one = memory.sample(50)
    other = filled([[5, 4, 3]], rl.Hindsight(reward=reward), seed=1)
    other.random_state = state
    two = other.sample(50)
    assert (one.obs.desired_goal == two.obs.desired_goal).all()
    assert (one.relabelled == two.relabelled).all()
    assert not (memory.sample(50).relabelled == one.relabelled).all()


def test_priorities() -> None:
    memory = filled([[5, 4, 3]], rl.Hindsight(reward=reward), sampler=rl.Prioritized(alpha=1.0))
    batch = memory.sample(40)
    first = batch.obs.observation == 0
    memory.update_priorities(batch, np.where(first, 1.0, 0.0))
    assert (memory.sample(40).obs.observation == 0).all()


def test_batches_drawn_ahead_are_relabelled() -> None:
    memory = filled([[5, 4, 3]], rl.Hindsight("future", 1e9, reward=reward))
    with memory.prefetch(16) as batches:
        for _, batch in zip(range(3), batches, strict=False):
            assert batch.relabelled.all()
            assert set(batch.reward.tolist()) <= {100.0, 200.0}


def test_rows_that_are_read_are_not_relabelled() -> None:
    memory = filled([[5, 4, 3]], rl.Hindsight("future", 1e9, reward=reward))
    batch = memory.sample(16)
    assert (memory.read(batch.lanes, batch.serials).reward == -1).all()
    assert all((one.obs.desired_goal == -1).all() for one in memory.epoch(4))


def test_a_snapshot_holds_the_window_but_not_its_functions(tmp_path: Path) -> None:
    window = rl.Hindsight("final", 7, reward=reward, terminated=reached, gamma=GAMMA)
    memory = filled([[5, 4, 3]], window, sampler=rl.Prioritized())
    memory.update_priorities(memory.sample(40), np.arange(40.0))
    memory.save(tmp_path / "saved")
    loaded = rl.Memory.load(tmp_path / "saved")
    assert isinstance(loaded.window, rl.Hindsight)
    assert (loaded.window.strategy, loaded.window.k, loaded.window.gamma) == ("final", 7, GAMMA)
    assert (loaded.priorities == memory.priorities).all()
    assert (loaded.read([0], [0]).reward == -1).all()
    with pytest.raises(OptionError) as caught:
        loaded.sample(40)
    assert caught.value.problem.name == "window"
    whole = rl.Memory.load(tmp_path / "saved", window=window)
    one, two = memory.sample(40), whole.sample(40)
    assert all((a == b).all() for (_, a), (_, b) in zip(flat(one), flat(two), strict=True))


class Judge:
    """An environment that can be neither copied nor pickled, and its reward function."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def reward(self, achieved: Any, desired: Any) -> Any:
        return reward(achieved, desired)


def test_saving_copies_no_environment(tmp_path: Path) -> None:
    memory = filled([[5, 4, 3]], rl.Hindsight(reward=Judge().reward))
    memory.save(tmp_path / "saved")
    assert len(rl.Memory.load(tmp_path / "saved")) == len(memory)


def test_a_window_of_ones_own_may_relabel() -> None:
    class Doubled:
        def spec(self) -> Any:
            return rl.Transition(0.5).spec()

        def outputs(self, schema: rl.Schema, stack: Any) -> Any:
            return rl.Transition(0.5).outputs(schema, stack)

        def relabel(self, memory: rl.Memory, batch: rl.Batch, random: np.random.Generator) -> None:
            batch.reward *= 2

    memory = filled([[5, 4, 3]], Doubled())
    assert (memory.sample(9).reward == -2).all()
    assert not memory.transfer.can_sample_bytes


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_rows_whose_episode_is_gone_when_goals_are_read(strategy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is right though its rows were overwritten since; but their episodes cannot be known any more."""
    memory = filled([[4] * 20], rl.Hindsight(strategy, 4, reward=reward), capacity=60)
    real, turns = rl.Hindsight.relabel, []

    def relabel(self: rl.Hindsight, memory: rl.Memory, batch: rl.Batch, random: np.random.Generator) -> None:
        turns.append(1)
        for episode in range(100 * len(turns), 100 * len(turns) + 20) if len(turns) < 4 else ():
            for t in range(4):
                final = {"final_obs": seen(0, episode, 4)} if t == 3 else {}
                memory.append(obs=seen(0, episode, t), reward=[-1.0], terminated=[t == 3], truncated=[False], **final)
        real(self, memory, batch, random)

    monkeypatch.setattr(rl.Hindsight, "relabel", relabel)
    batch = memory.sample(32)
    mine = batch.relabelled
    assert mine.any()
    np.testing.assert_array_equal(batch.obs.desired_goal[mine, 1], batch.obs.achieved_goal[mine, 1])
    assert len(turns) == 4


def test_while_others_write() -> None:
    """Rows that were written over while goals were read are drawn again; none is a mixture."""
    memory = filled([[3, 3]], rl.Hindsight("episode", 4, reward=reward), capacity=60)
    memory.cut()  # the writer's first episode is another one
    stop = threading.Event()

    def write() -> None:
        episode = 2
        while not stop.is_set():
            for t in range(4):
                final = {"final_obs": seen(0, episode, 4)} if t == 3 else {}
                ends = {"terminated": [t == 3], "truncated": [False]}
                memory.append(obs=seen(0, episode, t), reward=[-1.0], lanes=[0], **ends, **final)
            episode += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(300):
            batch = memory.sample(16)
            goals, mine = batch.obs.desired_goal, batch.relabelled
            assert (goals[mine, 1] == batch.obs.achieved_goal[mine, 1]).all()
    finally:
        stop.set()
        writer.join()


def hindsight_over(**fields: Any) -> rl.Memory:
    schema = rl.Schema(obs={"achieved_goal": GOAL, "desired_goal": GOAL}, **fields)
    return rl.Memory(schema, 10, window=rl.Hindsight(reward=reward))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: rl.Hindsight("past", reward=reward), "strategy"),  # type: ignore[arg-type]
        (lambda: rl.Hindsight(k=-1, reward=reward), "k"),
        (lambda: rl.Hindsight(k=float("nan"), reward=reward), "k"),
        (lambda: rl.Hindsight(gamma=1.5, reward=reward), "gamma"),
        (lambda: rl.Hindsight(reward=None), "reward"),  # type: ignore[arg-type]
        (lambda: rl.Hindsight(reward=reward, terminated=1), "terminated"),  # type: ignore[arg-type]
        (lambda: filled([[3, 3]], rl.Hindsight(reward=lambda *_: 0.0)).sample(30), "reward"),
        (lambda: rl.Memory(rl.Schema(obs=rl.Field()), 10, window=rl.Hindsight(reward=reward)), "schema"),
        (lambda: hindsight_over(reward=None, rewards=rl.Field()), "schema"),
        (lambda: hindsight_over(reward=rl.Field((2,))), "reward"),
        (lambda: hindsight_over(relabelled=rl.Field()), "relabelled"),
    ],
)
def test_what_is_refused(make: Any, name: str) -> None:
    with pytest.raises((OptionError, SchemaError)) as caught:
        make()
    assert caught.value.problem.name == name
