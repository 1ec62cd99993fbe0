"""What XuanCe's documents get wrong about memories for one agent, row by row; and what else may go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from scipy import stats

import relive as rl
from refusals import refused
from relive.compat.xuance.v1_1 import memory_tools as xm
from xuance_single_world import ACT, BOX, IMAGE, on_policy, store_on


@pytest.mark.parametrize("cls", [xm.DummyOffPolicyBuffer, xm.DummyOffPolicyBuffer_Atari, xm.PerOffPolicyBuffer])
def test_off_policy_clear_resets_ptr_and_size(cls: Any) -> None:
    atari = cls is xm.DummyOffPolicyBuffer_Atari
    obs = np.ones((2, *(IMAGE if atari else BOX).shape), np.uint8 if atari else np.float32)
    buffer = cls(IMAGE if atari else BOX, ACT, None, 2, 4, 3)
    for _ in range(3):
        buffer.store(obs, np.zeros(2, int), np.ones(2, np.float32), np.zeros(2, bool), obs)
    buffer.clear()
    assert (buffer.ptr, buffer.size) == (0, 0)
    assert not buffer.observations.any()
    with pytest.raises(rl.errors.NotEnoughRows):
        buffer.sample(0.5) if cls is xm.PerOffPolicyBuffer else buffer.sample()
    buffer.store(obs, np.zeros(2, int), np.ones(2, np.float32), np.zeros(2, bool), obs)
    assert (buffer.ptr, buffer.size) == (1, 1)
    assert buffer.observations[:, 0].all()


def test_on_policy_clear_resets_start_ids() -> None:
    buffer = on_policy(gamma=1.0, gae_lam=1.0)
    for _ in range(3):
        store_on(buffer)
    buffer.finish_path(0.0, 0)
    assert buffer.start_ids.tolist() == [3]
    buffer.clear()
    assert buffer.start_ids.tolist() == [0]
    for _ in range(4):
        store_on(buffer)
    buffer.finish_path(0.0, 0)
    assert buffer.returns.tolist() == [[4.0, 3.0, 2.0, 1.0]]


def test_full_is_a_property_everywhere() -> None:
    class Mine(xm.Buffer):
        def store(self, *args: Any) -> None:
            self.size += 1

        def clear(self, *args: Any) -> None:
            self.size = 0

        def sample(self, *args: Any) -> None:
            return None

    mine = Mine(BOX, ACT, None)
    assert mine.full is False
    mine.n_size = 1
    mine.store()
    assert mine.full is True
    assert mine.finish_path() is None
    assert xm.DummyOffPolicyBuffer(BOX, ACT, None, 1, 4, 2).full is False


def test_auxiliary_information_of_off_policy_buffers_is_stored_and_returned() -> None:
    buffer = xm.DummyOffPolicyBuffer(BOX, ACT, {"note": (2,), "dist": None}, 2, 4, 5)
    obs = np.zeros((2, 3), np.float32)
    for t in range(3):
        info = {"note": np.full((2, 2), t, np.float32), "dist": [("a", t), ("b", t)]}
        buffer.store(obs, np.zeros(2, int), np.full(2, t, np.float32), np.zeros(2, bool), obs, info)
    assert buffer.auxiliary_infos["note"].shape == (2, 4, 2)
    assert buffer.auxiliary_infos["dist"][1, 2] == ("b", 2)
    samples = buffer.sample()
    assert len(samples) == 5
    for k in range(5):
        t = samples[2][k]
        assert samples.auxiliary_infos["note"][k].tolist() == [t, t]
        assert samples.auxiliary_infos["dist"][k][1] == t
    with refused(rl.errors.StepError, "aux_info/note"):
        buffer.store(obs, np.zeros(2, int), np.ones(2), np.zeros(2, bool), obs, {"dist": [1, 2]})
    with refused(rl.errors.OptionError, "auxiliary_shape", got="objects"):
        buffer.state_dict()


def test_scalars_and_data_of_one_environment_are_refused() -> None:
    buffer = xm.DummyOffPolicyBuffer(BOX, ACT, None, 2, 4, 5)
    good = {
        "obs": np.zeros((2, 3), np.float32),
        "acts": np.zeros(2, int),
        "rews": np.zeros(2, np.float32),
        "terminals": np.zeros(2, bool),
        "next_obs": np.zeros((2, 3), np.float32),
    }
    bad = {"obs": np.zeros(3), "acts": 1, "rews": 0.5, "terminals": False, "next_obs": np.zeros((1, 3))}
    for name, value in bad.items():
        with refused(rl.errors.StepError, name):
            buffer.store(**{**good, name: value})
    assert buffer.size == 0
    buffer.store(**good)
    with refused(rl.errors.StepError, "data"):
        xm.store_element(np.zeros(3), xm.create_memory((3,), 2, 4), 0)


def test_fields_have_the_spaces_own_dtype() -> None:
    counts = gymnasium.spaces.Box(0, 2**40, (1,), np.int64)
    wide = gymnasium.spaces.Box(-1, 1, (1,), np.float64)
    buffer = xm.DummyOffPolicyBuffer(counts, ACT, None, 1, 4, 2)
    assert buffer.actions.dtype == np.int64
    big = np.array([[16777217]])
    buffer.store(big, np.array([4]), np.zeros(1), np.zeros(1, bool), big)
    assert buffer.sample()[0][0, 0] == 16777217
    assert xm.DummyOffPolicyBuffer(wide, ACT, None, 1, 4, 2).observations.dtype == np.float32


def test_atari_buffers_refuse_floats() -> None:
    images = np.full((1, 8, 8, 4), 0.5, np.float32)
    off = xm.DummyOffPolicyBuffer_Atari(IMAGE, ACT, None, 1, 4, 2)
    with refused(rl.errors.StepError, "obs", "next_obs"):
        off.store(images, np.zeros(1, int), np.zeros(1), np.zeros(1, bool), images)
    on = xm.DummyOnPolicyBuffer_Atari(IMAGE, ACT, None, 1, 4)
    with refused(rl.errors.StepError, "obs"):
        on.store(images, np.zeros(1, int), np.zeros(1), np.zeros(1), np.zeros(1, bool))
    assert off.size == on.size == 0


def test_time_limits_are_not_terminals() -> None:
    buffer = on_policy(n_envs=2, n_size=2, gamma=0.5, gae_lam=1.0)
    store_on(buffer, truncations=np.array([True, False]))
    with refused(rl.errors.StepError, "finish_path"):
        store_on(buffer)
    buffer.finish_path(10.0, 0)
    store_on(buffer)
    buffer.finish_path(0.0, 0)
    buffer.finish_path(0.0, 1)
    assert buffer.returns.tolist() == [[6.0, 1.0], [1.5, 1.0]]
    assert buffer.truncations.tolist() == [[True, False], [False, False]]
    assert not buffer.terminals.any()


def test_a_recurrent_draw_does_not_cost_more_with_more_episodes() -> None:
    """Counted, not timed: drawing never touches the list of episodes."""
    buffer = xm.RecurrentOffPolicyBuffer(BOX, ACT, None, 1, 500, 8, 3, 2, seed=0)
    episode = xm.EpisodeBuffer()
    episode.obs.append(np.zeros(3))
    episode.put([np.zeros(3), 0, 1.0, True])
    for _ in range(500):
        buffer.store(episode)

    class Watched(np.ndarray):
        reads = 0

        def __getitem__(self, item: Any) -> Any:
            Watched.reads += np.size(item)
            return super().__getitem__(item)

    ring = buffer._ring
    ring.starts, ring.lengths = ring.starts.view(Watched), ring.lengths.view(Watched)
    buffer.sample()
    assert 0 < Watched.reads <= 2 * 8


def test_windows_do_not_shrink_to_the_shortest_episode() -> None:
    buffer = xm.RecurrentOffPolicyBuffer(BOX, ACT, None, 1, 2, 40, 9, 4, seed=0)
    for length in (1, 9):
        episode = xm.EpisodeBuffer()
        episode.obs.append(np.zeros(3))
        for _ in range(length):
            episode.put([np.zeros(3), 0, 1.0, False])
        buffer.store(episode)
    samples = buffer.sample()
    assert samples[2].shape == (40, 4)
    assert set(samples.mask.sum(axis=1).tolist()) == {1, 4}
    np.testing.assert_array_equal(samples[2] > 0, samples.mask)
    cut = xm.RecurrentOffPolicyBuffer(BOX, ACT, None, 1, 2, 40, 9, 4, padded=False)
    for length in (3, 9):
        episode = xm.EpisodeBuffer()
        episode.obs.append(np.zeros(3))
        for _ in range(length):
            episode.put([np.zeros(3), 0, 1.0, False])
        cut.store(episode)
    obs, acts, rews, done = cut.sample()  # for learners that look at no mask
    assert (obs.shape, acts.shape, rews.shape, done.shape) == ((40, 4, 3), (40, 3), (40, 3), (40, 3))
    assert rews.all()


def test_an_algorithm_without_values_may_say_so() -> None:
    buffer = on_policy(n_envs=2)
    obs, row = np.zeros((2, 3)), np.ones(2, np.float32)
    buffer.store(obs, np.zeros(2, int), row, 0, np.zeros(2, bool))
    assert not buffer.values.any()
    with refused(rl.errors.StepError, "value"):
        buffer.store(obs, np.zeros(2, int), row, 0.5, np.zeros(2, bool))


def test_without_gae_returns_are_masked_and_advantages_what_they_are_above_values() -> None:
    buffer = on_policy(n_size=3, use_gae=False, gamma=0.5)
    obs = np.zeros((1, 3), np.float32)
    for reward, value, done in ((1.0, 0.5, False), (1.0, 0.25, True), (4.0, 1.0, False)):
        buffer.store(obs, np.zeros(1, int), np.array([reward]), np.array([value]), np.array([done]))
    buffer.finish_path(8.0, 0)
    assert buffer.returns.tolist() == [[1.5, 1.0, 8.0]]
    assert buffer.advantages.tolist() == [[1.0, 0.75, 7.0]]


def test_finish_path_twice_does_nothing_the_second_time() -> None:
    buffer = on_policy(gamma=1.0, gae_lam=1.0)
    for _ in range(4):
        store_on(buffer)
    buffer.finish_path(5.0, 0)
    before = buffer.returns.copy()
    buffer.finish_path(100.0, 0)
    np.testing.assert_array_equal(buffer.returns, before)
    assert before.tolist() == [[9.0, 8.0, 7.0, 6.0]]


def test_functions_on_plain_arrays() -> None:
    memory = xm.create_memory({"a": (2,), "b": None, "c": {"d": ()}}, 2, 3)
    xm.store_element({"a": np.ones((2, 2)), "b": ["x", "y"], "c": {"d": np.array([3.0, 4.0])}}, memory, 1)
    batch = xm.sample_batch(memory, (np.array([0, 1]), np.array([1, 1])))
    assert batch["a"].tolist() == [[1, 1], [1, 1]]
    assert batch["b"].tolist() == ["x", "y"]
    assert batch["c"]["d"].tolist() == [3, 4]
    assert xm.create_memory(None, 2, 3) is None
    assert xm.sample_batch(None, 0) is None
    assert xm.store_element(None, memory, 0) is None
    assert xm.create_memory((), 2, 3, np.uint8).dtype == np.uint8
    pair = xm.create_memory(((1,), ()), 2, 3)
    xm.store_element((np.ones((2, 1)), np.zeros(2)), pair, 2)
    assert pair[0][:, 2].tolist() == [[1], [1]]
    with refused(rl.errors.StepError, "data"):
        xm.store_element(np.full(2, 0.7), xm.create_memory((), 2, 3, np.uint8), 0)
    with refused(rl.errors.StepError, "data/a"):
        xm.store_element({"b": ["x", "y"], "c": {"d": np.zeros(2)}}, memory, 0)
    with refused(rl.errors.OptionError, "shape"):
        xm.create_memory(7, 2, 3)


def test_what_is_sampled_too_early_or_from_nowhere() -> None:
    buffer = on_policy()
    with refused(rl.errors.NotEnoughRows, "buffer", got="0 of 4 steps"):
        buffer.sample(np.arange(2))
    for _ in range(4):
        store_on(buffer)
    with refused(rl.errors.OptionError, "indexes"):
        buffer.sample(np.array([4]))
    with refused(rl.errors.OptionError, "i", got="1"):
        buffer.finish_path(0.0, 1)
    store_on(buffer)
    with refused(rl.errors.OptionError, "val"):
        buffer.finish_path(np.zeros(2), 0)
    with refused(rl.errors.OptionError, "n_size", got="1"):
        on_policy(n_size=1)
    recurrent = xm.RecurrentOffPolicyBuffer(BOX, ACT, None, 1, 3, 5, 2, 2)
    episode = xm.EpisodeBuffer()
    with refused(rl.errors.StepError, "episode"):
        recurrent.store(episode)
    odd = xm.EpisodeBuffer()
    odd.obs.append(np.zeros(3))
    odd.put([np.zeros(3), 0, 1e300, False])
    with refused(rl.errors.StepError, "rews"):
        recurrent.store(odd)
    odd.done[0] = 0.5
    with refused(rl.errors.StepError, "done"):
        recurrent.store(odd)
    assert recurrent.size == 0
    episode.put([np.zeros(3), 0, 0.0, True])
    with refused(rl.errors.StepError, "episode"):
        recurrent.store(episode)


def test_rollouts_that_are_not_cleared_go_round() -> None:
    buffer = on_policy(n_size=4, gamma=1.0, gae_lam=1.0, use_advnorm=False)
    for reward in range(6):
        store_on(buffer, reward)
    buffer.finish_path(10.0, 0)  # of the four steps that are left
    assert buffer.rewards.tolist() == [[4, 5, 2, 3]]
    assert buffer.returns.tolist() == [[19, 15, 24, 22]]
    assert buffer.start_ids.tolist() == [2]
    store_on(buffer, 6.0)
    buffer.finish_path(0.0, 0)
    assert buffer.returns.tolist() == [[19, 15, 6, 22]]
    _, _, returns, _, advantages, _ = buffer.sample(np.array([3, 2, 1, 0]))
    assert returns.tolist() == advantages.tolist() == [22, 6, 15, 19]


def test_objects_stay_with_their_steps() -> None:
    buffer = xm.DummyOffPolicyBuffer(BOX, ACT, {"dist": None}, 1, 3, 20)
    obs = np.zeros((1, 3), np.float32)
    for t in range(5):
        buffer.store(obs, np.zeros(1, int), np.full(1, t, np.float32), np.zeros(1, bool), obs, {"dist": [("a", t)]})
    samples = buffer.sample()
    assert [pair[1] for pair in samples.auxiliary_infos["dist"]] == samples[2].tolist()
    assert set(samples[2].tolist()) == {2, 3, 4}
    buffer.store(obs, np.zeros(1, int), np.zeros(1, np.float32), np.zeros(1, bool), obs)
    assert buffer.auxiliary_infos["dist"][0].tolist() == [("a", 3), ("a", 4), 0]
    buffer.clear()
    assert buffer.auxiliary_infos["dist"][0].tolist() == [0, 0, 0]


def test_auxiliary_information_can_be_written_to() -> None:
    buffer = xm.DummyOnPolicyBuffer(BOX, ACT, {"old_dist": None, "number": (2,)}, 2, 3)
    row = np.zeros(2, np.float32)
    for _ in range(3):
        info = {"old_dist": ["a", "b"], "number": np.zeros((2, 2))}
        buffer.store(np.zeros((2, 3)), np.zeros(2, int), row, row, np.zeros(2, bool), info)
    buffer.auxiliary_infos["old_dist"] = np.array([["n"] * 3] * 2, object)
    buffer.auxiliary_infos["number"] = np.arange(12).reshape(2, 3, 2)
    aux = buffer.sample(np.arange(6))[5]
    assert aux["old_dist"].tolist() == ["n"] * 6
    assert aux["number"].ravel().tolist() == list(range(12))
    with refused(rl.errors.OptionError, "number", got="[2]"):
        buffer.auxiliary_infos["number"] = np.zeros(2)
    none = xm.DummyOnPolicyBuffer(BOX, ACT, {}, 2, 3)
    none.store(np.zeros((2, 3)), np.zeros(2, int), row, row, np.zeros(2, bool), {})
    assert none.auxiliary_infos == {}


def test_recurrent_draws_begin_anywhere() -> None:
    buffer = xm.RecurrentOffPolicyBuffer(BOX, ACT, None, 1, 1, 4000, 9, 4, seed=0)
    episode = xm.EpisodeBuffer()
    episode.obs.append(np.zeros(3))
    for t in range(9):
        episode.put([np.full(3, t + 1), 0, float(t), False])
    buffer.store(episode)
    counts = np.bincount(buffer.sample()[2][:, 0].astype(int), minlength=6)
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-3


def test_notes_that_were_changed_are_refused(tmp_path: Path) -> None:
    buffer = on_policy()
    store_on(buffer)
    buffer.save(tmp_path)
    note = (tmp_path / "buffer.json").read_text()
    other = on_policy()
    for damage in (note.replace("count", "mount"), note[:-9], "[]", "{}", '{"buffer": 3, "xxh64": "0"}'):
        (tmp_path / "buffer.json").write_text(damage)
        with refused(rl.errors.SnapshotError, "buffer.json"):
            other.load(tmp_path)
        assert other.size == 0
    one = xm.RecurrentOffPolicyBuffer(BOX, ACT, None, 1, 3, 2, 7, 2)
    with refused(rl.errors.OptionError, "folder", got="3"):
        xm.RecurrentOffPolicyBuffer(BOX, ACT, None, 1, 7, 2, 3, 2).load_state_dict(one.state_dict())
