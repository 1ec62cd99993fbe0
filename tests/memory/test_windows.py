"""Windows by three numbers worked out on paper; the state machine covers the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relive as rl
from refusals import refused
from relive.errors import OptionError


def story(end: str, **options: Any) -> rl.Memory:
    """One episode of rewards 1, 2, 4 seen from obs 10, 20, 30 to 40, then another from obs 70."""
    schema = rl.Schema(obs=rl.Field(), hidden=rl.Field((2,)))
    memory = rl.Memory(schema, 40, seed=0, **options)
    for t, reward in enumerate([1.0, 2.0, 4.0]):
        last = t == 2
        memory.append(
            obs=10.0 * (t + 1),
            hidden=[t, -t],
            reward=reward,
            terminated=last and end == "terminated",
            truncated=last and end == "truncated",
            final_obs=40.0,
        )
    for t in range(3):
        memory.append(obs=70.0 + t, hidden=[9, 9], reward=0.0, terminated=False, truncated=False)
    return memory


def test_n_step_at_a_truncation_bootstraps_from_what_was_seen() -> None:
    batch = story("truncated", window=rl.NStep(2, gamma=0.5)).read([0, 0, 0], [0, 1, 2])
    assert batch.reward.tolist() == [2.0, 4.0, 4.0]
    assert batch.next_obs.tolist() == [30.0, 40.0, 40.0]
    assert batch.discount.tolist() == [0.25, 0.25, 0.5]
    assert batch.truncated.tolist() == [False, True, True]


def test_n_step_at_a_termination_does_not_bootstrap() -> None:
    batch = story("terminated", window=rl.NStep(2, gamma=0.5)).read([0, 0, 0], [0, 1, 2])
    assert batch.reward.tolist() == [2.0, 4.0, 4.0]
    assert batch.next_obs.tolist() == [30.0, 40.0, 40.0]
    assert batch.discount.tolist() == [0.25, 0.0, 0.0]


def test_a_step_is_whole_once_what_followed_is_known() -> None:
    memory = story("truncated")
    assert (len(memory), memory.ready) == (6, 5)
    assert memory.read([0], [5]).next_obs.tolist() == [72.0]


def test_the_first_frame_is_repeated() -> None:
    batch = story("truncated", stack={"obs": 3}).read([0, 0, 0, 0], [0, 1, 2, 4])
    assert batch.obs.tolist() == [[10, 10, 10], [10, 10, 20], [10, 20, 30], [70, 70, 70]]
    assert batch.next_obs.tolist() == [[10, 10, 20], [10, 20, 30], [20, 30, 40], [70, 70, 71]]


def test_a_sequence_with_burn_in_and_the_state_at_its_start() -> None:
    memory = story("truncated", window=rl.Sequence(2, burn_in=1, start_fields="hidden"))
    batch = memory.read([0, 0, 0], [0, 1, 2])
    # What is trained on is [:, 1:]; the first one has no step before it, the last one only one after it.
    assert batch.obs.tolist() == [[0, 10, 20, 30], [10, 20, 30, 40], [20, 30, 40, 0]]
    assert batch.mask.tolist() == [[False, True, True], [False, True, True], [False, True, False]]
    assert batch.starts.tolist() == [[False, True, False], [True, False, False], [False, False, False]]
    assert batch.lengths.tolist() == [2, 2, 1]
    assert batch.reward.tolist() == [[0, 1, 2], [1, 2, 4], [2, 4, 0]]
    assert batch.hidden.tolist() == [[0, 0], [0, 0], [1, -1]]


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_discount_is_what_the_next_value_is_multiplied_by(end: str) -> None:
    """The same rule with every window: gamma, and nothing after a terminal state."""
    last = 0.0 if end == "terminated" else 0.5
    one = story(end, window=rl.Transition(gamma=0.5)).read([0, 0, 0], [0, 1, 2])
    assert one.discount.tolist() == [0.5, 0.5, last]
    run = story(end, window=rl.Sequence(2, burn_in=1, gamma=0.5)).read([0, 0, 0], [0, 1, 2])
    assert run.discount.tolist() == [[0, 0.5, 0.5], [0.5, 0.5, last], [0.5, last, 0]]
    over = story(end, window=rl.Sequence(3, across=True, gamma=0.5)).read([0], [1])
    assert over.discount.tolist() == [[0.5, last, 0.5]]
    whole = story(end, window=rl.Episodes(gamma=0.5)).sample(1)
    assert whole.discount[0, whole.lengths[0] - 1] == last
    packed = story(end, window=rl.Episodes(packed=True, gamma=0.5)).read([0], [0])
    assert packed.discount.tolist() == [0.5, 0.5, last]
    assert all(kind().gamma == 0.99 for kind in (rl.Transition, rl.Episodes))
    assert rl.Sequence(2).gamma == rl.NStep(2).gamma == 0.99


def test_a_sequence_across_an_end() -> None:
    batch = story("truncated", window=rl.Sequence(3, across=True)).read([0], [1])
    assert batch.obs.tolist() == [[20, 30, 70]]
    assert batch.next_obs.tolist() == [[30, 40, 71]]
    assert batch.truncated.tolist() == [[False, True, False]]
    assert batch.starts.tolist() == [[False, False, True]]


@pytest.mark.parametrize(("length", "steps"), [(None, 3), (5, 5), (2, 2)])
def test_episodes_are_padded(length: int | None, steps: int) -> None:
    batch = story("truncated", window=rl.Episodes(length)).sample(2)
    expected = [10, 20, 30, 40, 0, 0][: steps + 1]
    assert batch.obs.tolist() == [expected] * 2
    assert batch.mask[0].tolist() == [t < 3 for t in range(steps)]
    assert batch.lengths.tolist() == [min(3, steps)] * 2


def test_episodes_packed() -> None:
    memory = story("terminated", window=rl.Episodes(packed=True))
    memory.append(obs=73.0, hidden=[0, 0], reward=1.0, terminated=True, truncated=False, final_obs=74.0)
    batch = memory.read([0, 0], [4, 0])
    assert batch.obs.tolist() == [70, 71, 72, 73, 74, 10, 20, 30, 40]
    assert batch.reward.tolist() == [0, 0, 0, 1, 1, 2, 4]
    assert batch.lengths.tolist() == [4, 3]


def test_an_episode_longer_than_its_lane() -> None:
    memory = rl.Memory(rl.Schema(obs=rl.Field()), 10, window=rl.NStep(2, 1.0), seed=0)
    for t in range(100):
        memory.append(obs=t, reward=t, terminated=False, truncated=t == 99, final_obs=100.0)
    batch = memory.sample(50)
    assert set(batch.obs.tolist()) <= set(range(91, 100))
    assert (batch.next_obs == np.minimum(batch.obs + 2, 100)).all()


def test_loose_transitions_need_no_next_row() -> None:
    schema = rl.Schema(obs=rl.Field(), next_obs=rl.Field())
    memory = rl.Memory(schema, 10, window=rl.NStep(2, 1.0), seed=0)
    memory.append(obs=1, next_obs=2, reward=1.0, terminated=False, truncated=False)
    memory.append(obs=2, next_obs=3, reward=1.0, terminated=False, truncated=True)
    memory.append(obs=7, next_obs=8, reward=1.0, terminated=True, truncated=False)
    assert memory.ready == 3
    batch = memory.read([0, 0, 0], [0, 1, 2])
    assert batch.next_obs.tolist() == [3, 3, 8]
    assert batch.reward.tolist() == [2, 1, 1]
    assert batch.discount.tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("make", "about"),
    [
        (lambda: rl.NStep(0), "n"),
        (lambda: rl.NStep(3, gamma=1.5), "gamma"),
        (lambda: rl.Transition(gamma=None), "gamma"),
        (lambda: rl.Episodes(gamma="0.9"), "gamma"),
        (lambda: rl.Sequence(2, gamma=float("nan")), "gamma"),
        (lambda: rl.Sequence(0), "length"),
        (lambda: rl.Sequence(4, burn_in=-1), "burn_in"),
        (lambda: rl.Sequence(4, overlap=4), "overlap"),
        (lambda: rl.Episodes(0), "length"),
    ],
)
def test_bad_settings(make: Any, about: str) -> None:
    with refused(OptionError, about):
        make()


def test_a_stack_named_by_its_group_leaves_rewards_alone() -> None:
    """Found by review: it once read past the reward."""
    schema = rl.Schema(team=rl.Group(obs=rl.Field((3,)), reward=rl.Field(), action=rl.Field((), "uint8")))
    memory = rl.Memory(schema, 100, stack={"team": 4}, window=rl.NStep(3, 1.0), seed=0)
    for t in range(50):
        memory.append(team={"obs": [t] * 3, "reward": 1.0, "action": t}, terminated=False, truncated=False)
    batch = memory.sample(5)
    assert batch.team.reward.tolist() == [3.0] * 5
    assert batch.team.obs.shape == (5, 4, 3)
    assert batch.team.action.shape == (5,)
