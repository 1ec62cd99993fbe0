"""PyMARL's replay, saved and loaded."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch as th

import relive as rl
from pymarl_plain import GROUPS, SCHEME, check
from pymarl_player import PREPROCESS, Player, numbered
from refusals import refused
from relive.compat.pymarl import EpisodeBatch, ReplayBuffer


def test_replay_can_be_saved(tmp_path: Path) -> None:
    player = Player()
    one, two = (ReplayBuffer(SCHEME, GROUPS, 3, 6, preprocess=PREPROCESS, seed=seed) for seed in (1, 2))
    batch, plain = player.play([5, 2], 6, big=True)
    one.insert_episode_batch(batch)
    one.save(tmp_path)
    two.load(tmp_path)
    check(two[:2], plain)
    more, episodes = player.play([3, 4], 6)
    for buffer in (one, two):
        buffer.insert_episode_batch(more)
    check(two[:], [episodes[1], plain[1], episodes[0]])
    np.testing.assert_array_equal(one.sample(2)["state"], two.sample(2)["state"])
    with refused(rl.errors.OptionError, "folder", got="3"):
        ReplayBuffer(SCHEME, GROUPS, 4, 6, preprocess=PREPROCESS).load(tmp_path)


def test_snapshots_of_other_schemes_are_refused_and_change_nothing() -> None:
    def made(scheme: Any, groups: Any = None) -> ReplayBuffer:
        return ReplayBuffer(scheme, groups or {}, 2, 2)

    first = {"p": {"vshape": (2,)}, "q": {"vshape": (2,)}, "c": {"vshape": (4,), "episode_const": True}}
    saved = made(first)
    batch = EpisodeBatch(first, {}, 1, 2)
    batch.update({"p": np.ones((1, 2, 2)), "c": [[1.0, 2, 3, 4]]})
    saved.insert_episode_batch(batch)
    state = saved.state_dict()
    for other in (
        {"q": first["q"], "p": first["p"], "c": first["c"]},
        {"p": first["p"], "zzz": first["q"], "c": first["c"]},
        {"p": {"vshape": (2,), "dtype": th.int8}, "q": first["q"], "c": first["c"]},
        {"p": first["p"], "q": first["q"], "c": {"vshape": (2,), "episode_const": True}},
        {"p": first["p"], "q": first["q"]},
    ):
        buffer = made(other)
        with refused(rl.errors.OptionError, "folder"):
            buffer.load_state_dict(state)
        assert buffer.episodes_in_buffer == 0
    again = made(first)
    again.load_state_dict(state)
    assert again["c"][0].tolist() == [1, 2, 3, 4]


def test_constants_of_any_dtype_are_saved() -> None:
    scheme = {"x": {"vshape": (1,)}, "c": {"vshape": (2,), "episode_const": True, "dtype": th.bfloat16}}
    buffer = ReplayBuffer(scheme, {}, 2, 2)
    batch = EpisodeBatch(scheme, {}, 1, 2)
    batch.update({"c": [[1.5, 2.5]], "x": np.ones((1, 2, 1))})
    buffer.insert_episode_batch(batch)
    assert pickle.loads(pickle.dumps(buffer))["c"][0].tolist() == [1.5, 2.5]
    assert buffer.max_t_filled().tolist() == [2]
    buffer.to("meta")
    assert buffer.sample(1)["x"].device.type == "meta"
    with refused(rl.errors.OptionError, "ep_batch", got="1 and 0"):
        buffer.insert_episode_batch(batch[:, 0:0])


def test_saving_beside_inserting(tmp_path: Path) -> None:
    """Every snapshot that a thread takes while another inserts can be read whole."""
    buffer, batch = numbered([1, 2])
    stop = threading.Event()

    def insert() -> None:
        while not stop.is_set():
            buffer.insert_episode_batch(batch)

    buffer.insert_episode_batch(batch)
    thread = threading.Thread(target=insert)
    thread.start()
    try:
        for _ in range(15):
            buffer.save(tmp_path)
            again = numbered([])[0]
            again.load(tmp_path)
            assert set(again["x"][: again.episodes_in_buffer, 0, 0].tolist()) == {1, 2}
    finally:
        stop.set()
        thread.join()
