"""XuanCe's buffers of one agent, saved, copied and repeated by seeds."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np

import relive as rl
from refusals import refused
from relive.compat.xuance.v1_1 import memory_tools as xm
from xuance_single_world import ACT, BOX, World, on_policy, per, store_on


def test_seeds_repeat_and_buffers_can_be_saved(tmp_path: Path) -> None:
    for cls, more in ((xm.DummyOffPolicyBuffer, ()), (xm.PerOffPolicyBuffer, (0.7,))):
        one, two, three = (cls(BOX, ACT, None, 2, 6, 8, *more, seed=seed) for seed in (5, 5, 6))
        world = World(2)
        arguments = {xm.PerOffPolicyBuffer: (0.4,)}.get(cls, ())
        for _ in range(9):
            step = world.step()
            for buffer in (one, two, three):
                buffer.store(step["obs"], step["acts"], step["rews"], step["terminals"], step["next_obs"])
        drawn = [buffer.sample(*arguments) for buffer in (one, two, three)]
        np.testing.assert_array_equal(drawn[0][2], drawn[1][2])
        assert (drawn[0][2] != drawn[2][2]).any()
        if arguments:
            one.update_priorities(drawn[0][6], np.arange(8))
        three.load_state_dict(one.state_dict())
        one.save(tmp_path / cls.__name__)
        one.save(tmp_path / cls.__name__)
        two.load(tmp_path / cls.__name__)
        assert two.ptr == three.ptr == one.ptr == 3
        for _ in range(3):
            drawn = [buffer.sample(*arguments) for buffer in (one, two, three)]
            for part in range(len(drawn[0])):
                np.testing.assert_array_equal(drawn[0][part], drawn[1][part])
                np.testing.assert_array_equal(drawn[0][part], drawn[2][part])
        with refused(rl.errors.OptionError, "folder", got="12"):
            cls(BOX, ACT, None, 2, 12, 8, *more).load(tmp_path / cls.__name__)
        with refused(rl.errors.OptionError, "folder"):
            on_policy().load(tmp_path / cls.__name__)
    with refused(rl.errors.SnapshotError, "buffer.json"):
        on_policy().load(tmp_path / "nowhere")


def test_other_buffers_go_on_where_they_were_saved() -> None:
    one, two = (on_policy(n_envs=2, n_size=4, gamma=1.0, gae_lam=1.0) for _ in range(2))
    for _ in range(2):
        store_on(one)
    one.finish_path(1.0, 1)
    store_on(one)
    two.load_state_dict(one.state_dict())
    for buffer in (one, two):
        store_on(buffer)
        buffer.finish_path(0.0, 0)
        buffer.finish_path(0.0, 1)
        assert buffer.returns.tolist() == [[4.0, 3.0, 2.0, 1.0], [3.0, 2.0, 2.0, 1.0]]
    episode = xm.EpisodeBuffer()
    episode.obs.append(np.zeros(3))
    for t in range(4):
        episode.put([np.full(3, t), t, t, t == 3])
    first, second = (xm.RecurrentOffPolicyBuffer(BOX, ACT, None, 1, 3, 5, 6, 2, seed=seed) for seed in (1, 2))
    for _ in range(5):
        first.store(episode)
    second.load_state_dict(first.state_dict())
    for buffer in (first, second):
        buffer.store(episode)
    np.testing.assert_array_equal(first.sample()[0], second.sample()[0])


def test_saves_tidy_up_after_themselves_only(tmp_path: Path) -> None:
    buffer = on_policy()
    store_on(buffer)
    mine = tmp_path / "rows-of-mine"
    mine.mkdir()
    (tmp_path / "buffer.json-rows-0123456789abcdef").write_text("a save that was cut off")
    for _ in range(2):
        buffer.save(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[0] == "buffer.json"
    assert len(names) == 3
    assert mine.exists()


def test_buffers_can_be_copied() -> None:
    buffer = per(2, 4, 6)
    buffer.sample(0.5)
    for again in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        np.testing.assert_array_equal(again.observations, buffer.observations)
    np.testing.assert_array_equal(again.sample(0.5)[2], buffer.sample(0.5)[2])
    again.observations[:] = 9
    assert (buffer.observations != 9).all()
