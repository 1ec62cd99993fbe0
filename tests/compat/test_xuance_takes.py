"""What XuanCe's own memories take, ours take: looks inside them, odd arguments, other names."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import relive as rl
from refusals import refused
from relive.compat.xuance import memory_offline, memory_tools
from relive.compat.xuance.v1_1 import memory_tools as older
from relive.compat.xuance.v1_1 import memory_tools_marl as older_many

BOX = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
ACT = gymnasium.spaces.Discrete(4)
BOTH: Any = pytest.mark.parametrize("xm", [memory_tools, older], ids=["today", "1.1"])


def replay(xm: Any = memory_tools, kind: str = "DummyOffPolicyBuffer", n_envs: int = 2, size: int = 4) -> Any:
    return getattr(xm, kind)(BOX, ACT, None, n_envs, size * (1 if xm is older else n_envs), 4, seed=0)


def step(n_envs: int = 2, **changes: Any) -> dict[str, Any]:
    obs = np.arange(n_envs * 3, dtype=np.float32).reshape(n_envs, 3)
    whole = {"obs": obs, "acts": np.arange(n_envs), "rews": np.ones(n_envs), "terminals": np.zeros(n_envs, bool)}
    return whole | {"next_obs": obs} | changes


@BOTH
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whole_floats_are_actions(xm: Any, dtype: str) -> None:
    buffer = replay(xm)
    buffer.store(**step(acts=np.array([3, 1], dtype)))
    assert buffer.actions[:, 0].tolist() == [3, 1]
    with refused(rl.errors.StepError, "acts"):
        buffer.store(**step(acts=np.array([0, 0.5], dtype)))


@BOTH
def test_an_action_that_the_space_does_not_have(xm: Any) -> None:
    buffer = replay(xm)
    for bad, got in ((9, "9"), (-1, "-1")):
        with refused(rl.errors.StepError, "acts", got=got):
            buffer.store(**step(acts=np.array([0, bad])))
    assert buffer.size == 0
    shifted = memory_tools.DummyOffPolicyBuffer(BOX, gymnasium.spaces.Discrete(2, start=5), None, 1, 4, 2)
    shifted.store(**step(1, acts=np.array([6])))
    with refused(rl.errors.StepError, "acts"):
        shifted.store(**step(1))
    several = memory_tools.DummyOffPolicyBuffer(BOX, gymnasium.spaces.MultiDiscrete([2, 3]), None, 1, 4, 2)
    several.store(**step(1, acts=np.array([[1, 2]])))
    with refused(rl.errors.StepError, "acts"):
        several.store(**step(1, acts=np.array([[2, 2]])))
    bits = memory_tools.DummyOffPolicyBuffer(BOX, gymnasium.spaces.MultiBinary(3), None, 1, 4, 2)
    bits.store(**step(1, acts=np.array([[1, 0, 1]], np.int8)))
    nest = gymnasium.spaces.Dict({"a": ACT, "b": gymnasium.spaces.Tuple((ACT, BOX))})
    nested = memory_tools.DummyOffPolicyBuffer(BOX, nest, None, 1, 4, 2)
    with refused(rl.errors.StepError, "acts/b/0"):
        nested.store(**step(1, acts={"a": np.array([0]), "b": (np.array([7]), np.zeros((1, 3)))}))


@BOTH
def test_no_auxiliary_information_may_be_an_empty_dict(xm: Any) -> None:
    for shape in (None, {}, {"old_logp": ()}):
        buffer = xm.DummyOnPolicyBuffer(BOX, ACT, shape, 2, 4)
        rollout = {key: value for key, value in step().items() if key != "next_obs"}
        buffer.store(**rollout, value=np.zeros(2), aux_info={})
        assert buffer.size == 1


@BOTH
def test_longer_episodes_than_were_announced_are_stored(xm: Any, tmp_path: Any) -> None:
    def make() -> Any:
        return xm.RecurrentOffPolicyBuffer(BOX, ACT, None, 1, 3, 8, episode_length=4, lookup_length=3, seed=0)

    buffer = make()
    for number, length in enumerate((4, 11, 2, 30, 5)):
        episode = memory_tools.EpisodeBuffer()
        episode.obs.append(np.array([number, 0, 0]))
        for t in range(length):
            episode.put([np.array([number, t + 1, 0]), t % 4, float(t), t == length - 1])
        buffer.store(episode)
    assert [len(episode) for episode in buffer.memory] == [2, 30, 5]
    assert [int(episode.obs[0][0]) for episode in buffer.memory] == [2, 3, 4]
    assert [episode.reward[-1] for episode in buffer.memory] == [1, 29, 4]
    buffer.save(tmp_path)
    other = make()
    other.load(tmp_path)
    assert [len(episode) for episode in other.memory] == [2, 30, 5]
    ours, theirs = (each.sample() for each in (other, buffer))
    found = (ours["rewards"], theirs["rewards"]) if isinstance(ours, dict) else (ours[2], theirs[2])
    assert (found[0] == found[1]).all()


def test_sequences_are_cut_to_the_shortest_unless_they_are_padded() -> None:
    for padded, steps in ((False, 2), (True, 5)):
        buffer = memory_tools.RecurrentOffPolicyBuffer(BOX, ACT, None, 1, 2, 64, 9, 5, seed=0, padded=padded)
        for length in (2, 9):
            episode = memory_tools.EpisodeBuffer()
            episode.obs.append(np.zeros(3))
            for t in range(length):
                episode.put([np.full(3, t + 1), 0, 1.0, t == length - 1])
            buffer.store(episode)
        drawn = buffer.sample()
        assert list(drawn)[:5] == ["obs", "actions", "rewards", "terminals", "batch_size"]
        assert drawn["obs"].shape == (64, steps + 1, 3)
        assert drawn["actions"].shape == drawn["rewards"].shape == drawn["terminals"].shape == (64, steps)
        starts = drawn["obs"][:, 0, 0]
        if padded:
            assert drawn["mask"].shape == (64, 5)
            assert set(starts) == {0, 1, 2, 3, 4}
        else:
            assert set(starts) == set(range(8))  # wherever two steps follow


@BOTH
def test_arrays_by_lists_and_scalars(xm: Any) -> None:
    assert xm.create_memory([3], 2, 4).shape == (2, 4, 3)
    memory = xm.create_memory((), 2, 4)
    xm.store_element(1.5, memory, 2)
    assert memory[:, 2].tolist() == [1.5, 1.5]
    named = xm.create_memory({"a": [2], "b": ()}, 2, 4)
    xm.store_element({"a": np.ones((2, 2)), "b": 7}, named, 0)
    assert named["b"][:, 0].tolist() == [7, 7]


@BOTH
def test_what_was_a_plain_array_can_be_assigned(xm: Any) -> None:
    buffer = replay(xm)
    for _ in range(4):
        buffer.store(**step())
    buffer.rewards = buffer.rewards * 0 + 5
    buffer.observations = np.full((2, 4, 3), 2.0)
    buffer.next_observations = np.full((2, 4, 3), 3.0)
    drawn = buffer.sample()
    rewards, obs = (drawn["rewards"], drawn["obs"]) if isinstance(drawn, dict) else (drawn[2], drawn[0])
    assert (rewards == 5).all()
    assert (obs == 2).all()
    with refused(rl.errors.OptionError, "rewards", got="[3]"):
        buffer.rewards = np.zeros(3)
    rollout = xm.DummyOnPolicyBuffer(BOX, ACT, {"note": None}, 1, 2)
    for _ in range(2):
        rollout.store(np.zeros((1, 3)), np.zeros(1, int), np.ones(1), np.ones(1), np.zeros(1, bool), {"note": ["old"]})
    rollout.returns, rollout.advantages, rollout.values = (np.full((1, 2), n) for n in (1.0, 2.0, 3.0))
    rollout.auxiliary_infos.update({"note": np.array([["new", "newer"]], object)})
    drawn = rollout.sample([0, 1])
    assert (drawn["aux_batch"] if isinstance(drawn, dict) else drawn[5])["note"].tolist() == ["new", "newer"]


@BOTH
def test_the_trees_of_priorities(xm: Any) -> None:
    buffer = replay(xm, "PerOffPolicyBuffer")
    for _ in range(3):
        buffer.store(**step())
    assert [tree[0] for tree in buffer._it_sum] == pytest.approx([1, 1], abs=1e-6)
    assert buffer._max_priority.tolist() == pytest.approx([1, 1], abs=1e-6)
    buffer.update_priorities([1, 4], np.array([4.0, 9.0]))  # environment 0, slot 1; environment 1, slot 0
    first, second = buffer._it_sum
    assert first.sum() == pytest.approx(2 + 4**0.6, abs=1e-4)
    assert first.sum(0, 2) == pytest.approx(1 + 4**0.6, abs=1e-4)
    assert buffer._it_min[0].min() == pytest.approx(1, abs=1e-6)
    assert second[0] == pytest.approx(9**0.6, abs=1e-4)
    assert buffer._max_priority.tolist() == pytest.approx([9, 9], abs=1e-4)
    assert second.find_prefixsum_idx(0.0) == 0
    assert second.find_prefixsum_idx(9**0.6 + 1.5) == 2
    second[2] = 16**0.6
    assert second[2] == pytest.approx(16**0.6, abs=1e-3)


@BOTH
def test_segment_trees(xm: Any) -> None:
    random = np.random.default_rng(0)
    values = random.random(16)
    sums, least = xm.SumSegmentTree(16), xm.MinSegmentTree(16)
    for place, value in enumerate(values):
        sums[place], least[place] = value, value
    for start in range(16):
        for end in [*range(start + 1, 17), None, -1]:
            if end == -1 and start == 15:
                continue
            assert sums.sum(start, end) == pytest.approx(values[start:end].sum())
            assert least.min(start, end) == values[start:end].min()
    for mass in random.random(50) * values.sum():
        assert sums.find_prefixsum_idx(mass) == np.searchsorted(values.cumsum(), mass, side="right")
    with refused(rl.errors.OptionError, "capacity", got="12"):
        xm.SumSegmentTree(12)
    with refused(rl.errors.OptionError, "idx", got="16"):
        sums[16] = 1.0


@BOTH
def test_small_functions(xm: Any) -> None:
    assert xm.space2shape(BOX) == (3,)
    assert xm.space2shape({"a": BOX, "b": ACT}) == {"a": (3,), "b": ()}
    assert xm.space2shape(gymnasium.spaces.Dict({"a": BOX})) == {"a": (3,)}
    assert xm.space2shape((4, 5)) == (4, 5)
    assert xm.discount_cumsum([0, 1, 2, 2], 0.99).tolist() == pytest.approx([4.890798, 4.9402, 3.98, 2.0])


def test_sequences_for_world_models() -> None:
    buffer = memory_tools.SequentialReplayBuffer(BOX, ACT, None, n_envs=2, buffer_size=14, batch_size=300, seed=0)
    with refused(rl.errors.NotEnoughRows, "buffer"):
        buffer.sample(3)
    for t in range(25):
        obs = np.stack([np.arange(2), np.full(2, t), np.zeros(2)], axis=1).astype(np.float32)
        ends = np.array([t % 5 == 4, t % 7 == 6])
        buffer.store(obs, np.full(2, t % 4), np.full(2, t), ends, np.zeros(2), np.roll(ends, 1))
    drawn = buffer.sample(3)
    assert list(drawn) == ["obs", "acts", "rews", "terms", "truncs", "is_first"]
    assert drawn["obs"].shape == (2, 3, 300, 3)
    assert drawn["acts"].shape == (2, 3, 300)
    assert all(drawn[name].shape == (2, 3, 300, 1) for name in ("rews", "terms", "truncs", "is_first"))
    assert (drawn["obs"][..., 0] == np.arange(2)[:, None, None]).all()
    times = drawn["obs"][..., 1]
    assert (np.diff(times, axis=1) == 1).all()  # one after the other, across the end of the memory
    assert set(times[:, 0].ravel()) == set(range(18, 23))  # every place where three follow
    assert (drawn["rews"][..., 0] == times).all()
    assert (drawn["terms"][0, ..., 0] == (times[0] % 5 == 4)).all()
    buffer.clear()
    assert buffer.size == 0


def test_a_data_set() -> None:
    buffer = memory_offline.OfflineBuffer_D4RL(BOX, BOX, None, n_envs=2, buffer_size=20, batch_size=64, seed=0)
    random = np.random.default_rng(0)
    data = {
        "observations": random.normal(size=(8, 3)).astype(np.float32),
        "actions": random.normal(size=(8, 3)).astype(np.float32),
        "rewards": np.arange(8.0),
        "next_observations": random.normal(size=(8, 3)).astype(np.float32),
        "terminals": np.arange(8) == 7,
    }
    buffer.d4rl2buffer(data)
    assert (buffer.ptr, buffer.size) == (8, 8)
    drawn = buffer.sample()
    rows = drawn["rewards"].astype(int)
    assert set(rows) == set(range(8))
    assert (drawn["obs"] == data["observations"][rows]).all()
    assert (drawn["obs_next"] == data["next_observations"][rows]).all()
    assert (drawn["terminals"] == (rows == 7)).all()
    for wrong, about in (
        ({"rewards": np.zeros(11)}, "dataset"),
        ({"actions": np.zeros((7, 3))}, "dataset"),
        ({"actions": np.zeros((8, 2))}, "acts"),
    ):
        with refused(rl.errors.ReliveError, about):
            buffer.d4rl2buffer(data | wrong)
    assert buffer.size == 8
    assert (buffer.sample()["rewards"] < 8).all()
    with refused(rl.errors.OptionError, "dataset"):
        buffer.d4rl2buffer({key: value for key, value in data.items() if key != "terminals"})


def test_actions_of_many_agents_that_their_space_does_not_have() -> None:
    buffer = older_many.MARL_OffPolicyBuffer(2, None, (3,), ACT, (2, 1), (2,), 1, 4, 2)
    obs = np.zeros((1, 2, 3), np.float32)
    step_data = {"obs": obs, "obs_next": obs, "rewards": np.zeros((1, 2, 1)), "terminals": np.zeros((1, 2), bool)}
    with refused(rl.errors.StepError, "actions"):
        buffer.store(step_data | {"actions": np.array([[0, 9]])})
    buffer.store(step_data | {"actions": np.array([[0.0, 3.0]])})
    assert buffer.data["actions"][0, 0].tolist() == [0, 3]


def test_actions_that_lack_a_part_are_refused_with_its_name() -> None:
    nest = gymnasium.spaces.Dict({"a": ACT, "b": ACT})
    buffer = memory_tools.DummyOffPolicyBuffer(BOX, nest, None, 1, 4, 2)
    with refused(rl.errors.StepError, "acts/b"):
        buffer.store(**step(1, acts={"a": np.array([0])}))
    assert buffer.size == 0
