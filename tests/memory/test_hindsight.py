"""Hindsight against rows that say who they are."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relive as rl
from relive.errors import OptionError

GAMMA = 0.9
GOAL = rl.Field((3,))
SCHEMA = rl.Schema(obs={"achieved_goal": GOAL, "desired_goal": GOAL, "observation": rl.Field()}, reward=rl.Field())


def reached(achieved: Any, desired: Any) -> Any:
    return (achieved == desired).all(axis=1)


def reward(achieved: Any, desired: Any) -> Any:
    return np.where(reached(achieved, desired), 100.0, 200.0)


def filled(lengths: list[list[int]], capacity: int = 4200, window: Any = None, **options: Any) -> rl.Memory:
    """Lanes of episodes: what is achieved is the lane, the episode and the step; the last of a lane goes on.

    Episodes of an even length terminate, others are truncated.
    """
    window = rl.Transition(gamma=GAMMA) if window is None else window
    memory = rl.Memory(SCHEMA, capacity=capacity, lanes=len(lengths), window=window, seed=0, **options)
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
    memory = filled(lanes)
    hindsight = rl.Hindsight(strategy, 4, reward=reward, terminated=reached, seed=seed)
    batch = hindsight.sample(memory, 64)
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
    memory = filled([[6, 2]])
    batch = rl.Hindsight("future", 4, reward=reward, seed=1).sample(memory, 30_000)
    count = int(batch.relabelled.sum())
    assert chi_square(np.array([count, 30_000 - count]), np.array([24_000, 6_000])) < 10.83
    mine = batch.relabelled & (batch.obs.achieved_goal[:, 1] == 0) & (batch.obs.achieved_goal[:, 2] == 2)
    goals = np.bincount(batch.obs.desired_goal[mine, 2].astype(int), minlength=7)
    assert goals[:3].sum() == 0
    assert chi_square(goals[3:], np.full(4, mine.sum() / 4)) < 16.27
    whole = rl.Hindsight("episode", 4, reward=reward, seed=1).sample(memory, 30_000)
    mine = whole.relabelled & (whole.obs.achieved_goal[:, 1] == 0)
    goals = np.bincount(whole.obs.desired_goal[mine, 2].astype(int), minlength=7)
    assert chi_square(goals[1:], np.full(6, mine.sum() / 6)) < 20.52


def test_ends_stay_without_a_judge_of_them() -> None:
    memory = filled([[2, 3, 1]])
    batch = rl.Hindsight("future", 1e9, reward=reward, seed=0).sample(memory, 200)
    last = (batch.obs.achieved_goal[:, 1] == 0) & (batch.obs.achieved_goal[:, 2] == 1)
    assert (batch.discount[last] == 0).all()
    assert (batch.discount[~last] > 0).all()
    assert batch.relabelled.all()


def test_what_was_overwritten_is_no_goal() -> None:
    memory = filled([[30, 2]], capacity=20)
    for strategy in ("future", "episode", "final"):
        batch = rl.Hindsight(strategy, 9, reward=reward, seed=0).sample(memory, 500)  # type: ignore[arg-type]
        old = batch.relabelled & (batch.obs.achieved_goal[:, 1] == 0)
        assert (batch.obs.desired_goal[old, 2] > batch.obs.achieved_goal[old, 2]).all()


def test_the_same_state_draws_the_same() -> None:
    memory = filled([[5, 4, 3]])
    hindsight = rl.Hindsight(reward=reward, seed=3)
    hindsight.sample(memory, 8)
    state, place = hindsight.random_state, memory.random_state
    one = hindsight.sample(memory, 50)
    memory.random_state = place
    other = rl.Hindsight(reward=reward)
    other.random_state = state
    two = other.sample(memory, 50)
    assert (one.obs.desired_goal == two.obs.desired_goal).all()
    assert (one.relabelled == two.relabelled).all()


def test_priorities_and_single_steps_of_n() -> None:
    memory = filled([[5, 4, 3]], sampler=rl.Prioritized(alpha=1.0), window=rl.NStep(1, gamma=GAMMA))
    hindsight = rl.Hindsight(reward=reward, seed=0)
    batch = hindsight.sample(memory, 40)
    first = batch.obs.observation == 0
    memory.update_priorities(batch, np.where(first, 1.0, 0.0))
    assert (hindsight.sample(memory, 40).obs.observation == 0).all()


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_rows_whose_episode_is_gone_when_goals_are_read(strategy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is right though its rows were overwritten since; but their episodes cannot be known any more."""
    memory, real, turns = filled([[4] * 20], capacity=60), rl.Memory.sample, []

    def sample(self: rl.Memory, size: int) -> rl.Batch:
        batch = real(self, size)
        turns.append(1)
        for episode in range(100 * len(turns), 100 * len(turns) + 20) if len(turns) < 4 else ():
            for t in range(4):
                final = {"final_obs": seen(0, episode, 4)} if t == 3 else {}
                self.append(obs=seen(0, episode, t), reward=[-1.0], terminated=[t == 3], truncated=[False], **final)
        return batch

    monkeypatch.setattr(rl.Memory, "sample", sample)
    batch = rl.Hindsight(strategy, 4, reward=reward, seed=0).sample(memory, 32)
    mine = batch.relabelled
    assert mine.any()
    np.testing.assert_array_equal(batch.obs.desired_goal[mine, 1], batch.obs.achieved_goal[mine, 1])
    assert len(turns) == 4


def test_while_others_write() -> None:
    """Rows that were written over while goals were read are drawn again; none is a mixture."""
    memory = filled([[3, 3]], capacity=60)
    hindsight, stop = rl.Hindsight("episode", 4, reward=reward, seed=0), threading.Event()

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
            batch = hindsight.sample(memory, 16)
            goals, mine = batch.obs.desired_goal, batch.relabelled
            assert (goals[mine, 1] == batch.obs.achieved_goal[mine, 1]).all()
    finally:
        stop.set()
        writer.join()


def test_refusals() -> None:
    memory = filled([[3, 3]])
    with pytest.raises(OptionError, match=r"^strategy must be one of future, final, episode, got 'past'$"):
        rl.Hindsight("past", reward=reward)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"^k must be finite and at least 0, got -1$"):
        rl.Hindsight(k=-1, reward=reward)
    with pytest.raises(OptionError, match=r"^reward must be a function of goals, got NoneType$"):
        rl.Hindsight(reward=None)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"^reward must give a value of each goal, \[\d+\], got \[\]$"):
        rl.Hindsight(reward=lambda *_: 0.0, seed=0).sample(memory, 30)
    with pytest.raises(
        OptionError, match=r"^window must be Transition\(\) or NStep\(1\) for hindsight, got NStep\(n=3"
    ):
        rl.Hindsight(reward=reward).sample(filled([[3, 3]], window=rl.NStep(3)), 3)
    plain = rl.Memory(rl.Schema(obs=rl.Field(), reward=rl.Field()), capacity=10)
    with pytest.raises(OptionError, match=r"^schema must have obs with achieved_goal and desired_goal, got none of"):
        rl.Hindsight(reward=reward).sample(plain, 1)
