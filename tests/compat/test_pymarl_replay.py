"""ReplayBuffer against episodes in a plain list, in any order of calls."""

from __future__ import annotations

import pickle
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch as th
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from scipy import stats

import relive as rl
from pymarl_plain import ACTIONS, AGENTS, GROUPS, SCHEME, PlainReplay, check, one_hot
from pymarl_player import PREPROCESS, Player, numbered
from refusals import refused
from relive.compat.pymarl import EpisodeBatch, OneHot, PrioritizedReplayBuffer, ReplayBuffer


class Machine(RuleBasedStateMachine):
    @initialize(size=st.integers(1, 5), steps=st.integers(2, 5), seed=st.integers(0, 3), prioritised=st.booleans())
    def start(self, size: int, steps: int, seed: int, prioritised: bool) -> None:
        self.steps, self.prioritised = steps, prioritised
        self.player = Player(seed)
        if prioritised:
            self.buffer: Any = PrioritizedReplayBuffer(
                SCHEME, GROUPS, size, steps, 0.6, 0.4, 100, preprocess=PREPROCESS, seed=seed
            )
        else:
            self.buffer = ReplayBuffer(SCHEME, GROUPS, size, steps, preprocess=PREPROCESS, seed=seed)
        self.plain = PlainReplay(size, steps)

    @rule(
        lengths=st.lists(st.integers(1, 4), min_size=1, max_size=7),
        shorter=st.booleans(),
        big=st.sampled_from([0] * 7 + [1]),
    )
    def insert(self, lengths: list[int], shorter: bool, big: bool) -> None:
        steps = self.steps - 1 if shorter and self.steps > 2 else self.steps
        lengths = [min(length, steps - 1) for length in lengths]
        batch, plain = self.player.play(lengths, steps, big=bool(big))
        self.buffer.insert_episode_batch(batch)
        self.plain.insert(plain)
        batch.update({"state": np.full((len(lengths), steps, 5), 1e9)})  # what is stored is a copy

    @rule()
    def insert_something_else_than_one_hots(self) -> None:
        batch, plain = self.player.play([1], self.steps)
        batch["actions_onehot"][0, 0, 0, 0] = 0.25
        plain[0]["actions_onehot"][0, 0, 0] = 0.25
        batch["reward"][0, self.steps - 1] = 3.0  # past its end, and not filled
        plain[0]["reward"][self.steps - 1] = 3.0
        self.buffer.insert_episode_batch(batch)
        self.plain.insert(plain)

    @rule()
    def counts(self) -> None:
        assert self.buffer.episodes_in_buffer == self.plain.there
        assert self.buffer.buffer_index == self.plain.index
        ring = self.buffer._rows.ring
        assert len(ring.memory) == ring.lengths[: ring.size].sum()  # no row of an episode that is gone
        for n in range(self.plain.size + 2):
            assert self.buffer.can_sample(n) == (n <= self.plain.there)

    @rule()
    def everything(self) -> None:
        check(self.buffer[:], self.plain.places)
        name = "obs"
        np.testing.assert_array_equal(
            self.buffer[name], np.stack([p[name] for p in self.plain.places]).astype(np.float32)
        )
        assert set(self.buffer.data.transition_data) | set(self.buffer.data.episode_data) == set(self.buffer.scheme)

    @rule(part=st.integers(1, 5))
    def sample(self, part: int) -> None:
        n = min(part, self.plain.there)
        if n == 0:
            return
        if self.prioritised:
            batch, places, weights = self.buffer.sample(n, 3)
            assert len(places) == len(weights) == n
            check(batch, [self.plain.places[place] for place in places])
            self.buffer.update_priorities(places, np.arange(n) + 0.5)
        batch = self.buffer.uni_sample(n)
        firsts = [float(np.float32(p["state"][0, 0])) for p in self.plain.places]
        found = [firsts.index(float(value)) for value in batch["state"][:, 0, 0]]
        assert len(set(found)) == n
        if n == self.plain.there:
            assert found == list(range(n))
        check(batch, [self.plain.places[place] for place in found])
        latest = self.buffer.sample_latest(n)
        check(latest, [self.plain.places[(self.plain.index - n + k) % self.plain.size] for k in range(n)])
        check(self.buffer[found, : self.steps - 1], [self.plain.places[place] for place in found], self.steps - 1)

    @rule(place=st.integers(0, 4), t=st.integers(0, 4), far=st.booleans())
    def update(self, place: int, t: int, far: bool) -> None:
        if self.plain.there == 0:
            return
        place, t = place % self.plain.there, t % self.steps
        value = 70000 if far else 1
        data = {"reward": [[2.5]], "avail_actions": np.full((1, AGENTS, ACTIONS), value), "actions": [[[2], [2]]]}
        self.buffer.update(data | {"goal": [[1.0, 2.0]]}, bs=place, ts=t)
        plain = self.plain.places[place]
        plain["reward"][t], plain["avail_actions"][t], plain["actions"][t], plain["filled"][t] = 2.5, value, 2, 1
        plain["actions_onehot"][t] = one_hot(np.full((AGENTS, 1), 2))
        plain["goal"] = np.array([1.0, 2.0])

    @rule()
    def save_and_load(self) -> None:
        again = pickle.loads(pickle.dumps(self.buffer))
        assert type(again) is type(self.buffer)
        check(again[:], self.plain.places)
        n = max(1, self.plain.there - 1)
        if self.plain.there:
            drawn = [
                buffer.sample(n, 5) if self.prioritised else (buffer.sample(n), 0) for buffer in (again, self.buffer)
            ]
            np.testing.assert_array_equal(drawn[0][0]["state"], drawn[1][0]["state"])
            assert drawn[0][1] == drawn[1][1]
        self.buffer = again


def test_replay_equals_plain_lists() -> None:
    run_state_machine_as_test(Machine, settings=settings(max_examples=60, stateful_step_count=20, deadline=None))


@pytest.mark.slow
def test_replay_equals_plain_lists_at_length() -> None:
    run_state_machine_as_test(Machine, settings=settings(max_examples=400, stateful_step_count=40, deadline=None))


def test_seven_into_five() -> None:
    buffer, batch = numbered(list(range(7)))
    buffer.insert_episode_batch(batch)
    assert buffer["x"][:, 0, 0].tolist() == [5, 6, 2, 3, 4]
    assert (buffer.buffer_index, buffer.episodes_in_buffer) == (2, 5)
    buffer.insert_episode_batch(numbered(list(range(10, 22)))[1])
    assert buffer["x"][:, 0, 0].tolist() == [18, 19, 20, 21, 17]  # 12 more, starting at place 2
    assert repr(buffer) == "ReplayBuffer. 5/5 episodes. Keys:dict_keys(['x', 'filled']) Groups:dict_keys([])"


def test_no_tail_of_an_older_episode_stays() -> None:
    player = Player()
    buffer = ReplayBuffer(SCHEME, GROUPS, 1, 6, preprocess=PREPROCESS)
    for lengths in ([5], [1]):
        batch, plain = player.play(lengths, 6)
        buffer.insert_episode_batch(batch)
        check(buffer[:], plain)


def test_samples_are_fair_without_replacement_and_repeat_with_the_seed() -> None:
    buffer, batch = numbered(list(range(5)))
    other = numbered([])[0]
    for each in (buffer, other):
        each.insert_episode_batch(batch)
    counts = np.zeros(5)
    for _ in range(2000):
        drawn, again = (each.sample(2)["x"][:, 0, 0].tolist() for each in (buffer, other))
        assert drawn == again
        assert len(set(drawn)) == 2
        counts[drawn] += 1
    assert stats.chisquare(counts).pvalue > 1e-3
    with refused(rl.errors.NotEnoughRows, "buffer", got="5"):
        buffer.sample(6)
    with refused(rl.errors.OptionError, "batch_size", got="0"):
        buffer.sample(0)


def test_samples_are_batches_of_their_own() -> None:
    player = Player()
    buffer = ReplayBuffer(SCHEME, GROUPS, 4, 6, preprocess=PREPROCESS)
    batch, plain = player.play([5, 2, 3, 1], 6)
    buffer.insert_episode_batch(batch)
    sample = buffer.sample(4)
    sample.update({"actions": np.zeros((4, 6, 2, 1))})
    assert (sample["actions_onehot"][..., 0] == 1).all()
    sample["state"][:] = 0
    check(buffer[:], plain)


def test_batches_that_do_not_fit_change_nothing() -> None:
    player = Player()
    buffer = ReplayBuffer(SCHEME, GROUPS, 4, 6, preprocess=PREPROCESS)
    batch, plain = player.play([5, 2], 6)
    buffer.insert_episode_batch(batch)
    longer, _ = player.play([5], 7)
    with refused(rl.errors.OptionError, "ep_batch", got="7"):
        buffer.insert_episode_batch(longer)
    foreign = EpisodeBatch({"speed": {"vshape": 1}}, {}, 1, 6)
    with refused(KeyError, "name", got="'speed'"):
        buffer.insert_episode_batch(foreign)
    wrong = EpisodeBatch({"state": {"vshape": 4}}, {}, 1, 6)
    with refused(rl.errors.OptionError, "state"):
        buffer.insert_episode_batch(wrong)
    with refused(rl.errors.OptionError, "bs", got="2"):
        buffer.update({"reward": [[1.0]]}, bs=2, ts=0)
    assert buffer.episodes_in_buffer == 2
    check(buffer[:2], plain)
    for size in (0, 1.5, True):
        with refused(rl.errors.OptionError, "buffer_size"):
            ReplayBuffer(SCHEME, GROUPS, size, 6)


def test_a_batch_of_fewer_names_leaves_the_others_zero() -> None:
    buffer = ReplayBuffer(SCHEME, GROUPS, 2, 6, preprocess=PREPROCESS)
    batch, plain = Player().play([5, 2], 6)
    buffer.insert_episode_batch(batch)
    buffer.insert_episode_batch(batch["state", "filled"])
    for episode, name in ((e, n) for e in plain for n in e if n not in ("state", "filled")):
        episode[name] = np.zeros_like(episode[name])
    check(buffer[:], plain)


def test_rows_take_less_than_half_of_the_padded_tensors() -> None:
    player = Player()
    buffer = ReplayBuffer(SCHEME, GROUPS, 40, 61, preprocess=PREPROCESS)
    batch, _ = player.play(player.random.integers(5, 40, 40).tolist(), 61)
    buffer.insert_episode_batch(batch)
    padded = sum(t.nbytes for part in (batch.data.transition_data, batch.data.episode_data) for t in part.values())
    assert buffer.nbytes < 0.25 * padded
    assert buffer.nbytes > 0.01 * padded


def test_wide_integers_and_odd_floats_come_back_exactly() -> None:
    scheme = {
        "id": {"vshape": (1,), "dtype": th.long},
        "small": {"vshape": (1,), "dtype": th.int8},
        "half": {"vshape": (1,), "dtype": th.float16},
        "brain": {"vshape": (1,), "dtype": th.bfloat16},
        "flag": {"vshape": (1,), "dtype": th.bool},
        "big": {"vshape": (1,), "dtype": th.float64},
    }
    buffer = ReplayBuffer(scheme, {}, 3, 2)
    for value in (1, -5, 2**40):
        batch = EpisodeBatch(scheme, {}, 1, 2)
        batch.update({"id": [[value]], "small": [[max(-128, value % 100 - 50)]], "half": [[0.5]]}, ts=0)
        batch.update({"brain": [[1.5]], "flag": [[value > 0]], "big": [[1 / 3]]}, ts=0)
        buffer.insert_episode_batch(batch)
    assert buffer["id"][:, 0, 0].tolist() == [1, -5, 2**40]
    assert buffer["small"][:, 0, 0].tolist() == [-49, 45, 2**40 % 100 - 50]
    assert buffer["flag"][:, 0, 0].tolist() == [True, False, True]
    assert (buffer["big"][:, 0, 0] == 1 / 3).all()
    for name, about in scheme.items():
        assert buffer[name].dtype == about["dtype"]
    assert (buffer["brain"][:, 0, 0] == 1.5).all()


def test_any_object_with_their_data_can_be_inserted() -> None:
    batch, plain = Player().play([5, 2], 6)
    theirs = SimpleNamespace(data=batch.data, batch_size=2, max_seq_length=6)
    buffer = ReplayBuffer(SCHEME, GROUPS, 2, 6, preprocess=PREPROCESS, device=th.device("meta"))
    buffer.insert_episode_batch(theirs)
    assert buffer.sample(1)["state"].device.type == "meta"
    buffer.device = "cpu"
    check(buffer[:], plain)


def test_one_hots_that_a_batch_does_not_have_are_made() -> None:
    scheme = {"a": {"vshape": (1,), "dtype": th.long}}
    batch = EpisodeBatch(scheme, {}, 1, 3)
    batch.update({"a": [[2]]}, ts=0)
    batch.update({"a": [[0]]}, ts=1)
    buffer = ReplayBuffer(scheme, {}, 1, 3, preprocess={"a": ("h", [OneHot(3)])})
    buffer.insert_episode_batch(batch)
    assert buffer["h"][0].tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]


SEEDED = """
import sys
import numpy as np, torch as th
from relive.compat.pymarl import EpisodeBatch, ReplayBuffer
np.random.seed(int(sys.argv[1]))
first = np.random.rand()
scheme = {"x": {"vshape": (1,), "dtype": th.long}}
batch = EpisodeBatch(scheme, {}, 50, 3)
batch.update({"x": np.arange(50)[:, None, None]}, ts=0)
for _ in range(2):
    buffer = ReplayBuffer(scheme, {}, 50, 3)
    buffer.insert_episode_batch(batch)
    print(buffer.sample(20)["x"][:, 0, 0].tolist())
print(np.random.rand())
"""


@pytest.mark.slow
def test_programs_that_seed_numpy_repeat_their_draws() -> None:
    def run(seed: int) -> list[str]:
        line = [sys.executable, "-c", SEEDED, str(seed)]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout.splitlines()

    one, again, other = run(3), run(3), run(4)
    assert one == again
    assert one[0] != one[1]
    assert one[0] != other[0]
    plain = np.random.RandomState(3)
    plain.rand()
    assert float(one[2]) == plain.rand()  # nothing was drawn from it


def test_packing_anew_does_not_change_the_draws() -> None:
    one, two = (numbered(list(range(5)))[0] for _ in range(2))
    for buffer in (one, two):
        buffer.insert_episode_batch(numbered(list(range(5)))[1])
        buffer.sample(2)
    two.update({"x": [[0]]}, bs=0, ts=0)  # what is there already
    for _ in range(3):
        np.testing.assert_array_equal(one.sample(2)["x"], two.sample(2)["x"])
