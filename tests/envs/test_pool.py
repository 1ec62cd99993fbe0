"""Environments in processes of their own: the same steps, and no death goes unsaid."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from typing import Any

import numpy as np
import pytest

import relive as rl
from pymarl_world import SLEEP, Old
from refusals import refused
from relive import envs
from relive.envs.adapters import FromPymarl, MakeGymnasium, MakePettingZoo, Pool, SyncEnvs


def _old(**options: Any) -> Any:
    # cloudpickle carries the class with it: the processes need not find this folder
    return lambda: FromPymarl(Old(**options))


@pytest.fixture(autouse=True)
def _by_value() -> Any:
    import cloudpickle

    import pymarl_world

    cloudpickle.register_pickle_by_value(pymarl_world)
    yield
    cloudpickle.unregister_pickle_by_value(pymarl_world)
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("make", [MakeGymnasium("CartPole-v1", {}), MakePettingZoo("mpe2.simple_tag_v3", {})])
def test_same_as_in_this_process(make: Any) -> None:
    here = SyncEnvs([make() for _ in range(5)])
    with Pool([make] * 5, processes=2) as pool:
        assert pool.schema == here.schema
        assert (pool.name, pool.max_episode_steps, pool.groups) == (here.name, here.max_episode_steps, here.groups)
        seen, other = here.reset(seed=2), pool.reset(seed=2)
        random = np.random.default_rng(0)
        memory = rl.Memory(pool.schema, capacity=1000, lanes=5)
        for _ in range(60):
            for key, value in seen.items():
                np.testing.assert_array_equal(other[key], value)
            action = {g.key("action"): random.integers(0, g.action_space.n, (5, len(g))) for g in here.groups}
            one, two = here.step(action), pool.step(action)
            assert one.row.keys() == two.row.keys()
            for key, value in one.row.items():
                np.testing.assert_array_equal(two.row[key], value)
            memory.append(**two.row)
            seen, other = one.obs, two.obs
        assert memory.episodes.lane.max() == 4


def test_a_killed_process_is_named_and_started_again() -> None:
    with Pool([_old()] * 4, processes=2) as pool:
        pool.reset()
        pool.step(np.zeros((4, 2), int))
        os.kill(pool._workers[1]._process.pid, signal.SIGKILL)
        pool._workers[1]._process.join()
        with refused(rl.errors.EnvError, "the process of environments 2 to 3", got="exit code -9"):
            pool.step(np.zeros((4, 2), int))
        with refused(rl.errors.EnvError, "reset", got="step"):
            pool.step(np.zeros((4, 2), int))
        seen = pool.reset()
        assert (seen["obs"][:, :, 1] == 0).all()
        assert (pool.step(np.zeros((4, 2), int)).obs["obs"][:, :, 1] == 1).all()


def test_a_process_that_leaves_by_itself() -> None:
    with Pool([_old()] * 2) as pool:
        pool.reset()
        with refused(rl.errors.EnvError, "the process of environment 1", got="exit code 7"):
            pool.step(np.array([[0, 0], [4, 0]]))
        pool.reset()
        pool.step(np.zeros((2, 2), int))


def test_an_error_inside_is_shown() -> None:
    with Pool([_old()] * 2, processes=1) as pool:
        pool.reset()
        with refused(rl.errors.EnvError, "the process of environments 0 to 1"):
            pool.step(np.array([[0, 0], [3, 0]]))
        pool.reset()
        pool.step(np.zeros((2, 2), int))


def test_one_that_does_not_answer() -> None:
    with Pool([_old()] * 2, patience=SLEEP) as pool:
        pool._patience = 1.0
        pool.reset()
        with refused(rl.errors.EnvError, "the process of environment 0"):
            pool.step(np.array([[5, 0], [0, 0]]))
        pool._patience = SLEEP
        seen = pool.reset()
        assert (seen["obs"][:, :, 1] == 0).all()


def test_by_name_and_refusals() -> None:
    with envs.make("gymnasium:CartPole-v1", num_envs=3, pool=2, render_mode="rgb_array") as pool:  # type: ignore[attr-defined]
        pool.reset(seed=0)
        assert pool.render(2).ndim == 3
        with refused(rl.errors.OptionError, "index", got="3"):
            pool.render(3)
        with refused(rl.errors.OptionError, "action"):
            pool.step(np.zeros((2, 1), int))
        pool.step(np.zeros((3, 1), int))  # nothing was changed
    with refused(rl.errors.OptionError, "processes", got="3"):
        Pool([_old()] * 2, processes=3)
    with refused(rl.errors.OptionError, "makers", got="none"):
        Pool([])
    with refused(rl.errors.EnvError, "the process of environment 0"):
        Pool([MakePettingZoo("nowhere", {})])


def test_closed_is_closed() -> None:
    pool = Pool([_old()] * 2)
    pool.reset()
    pool.close()
    pool.close()
    for call in (pool.reset, pool.render, lambda: pool.step(np.zeros((2, 2), int))):
        with refused(rl.errors.EnvError, "pool", got="a closed one"):
            call()


def test_a_picture_that_cannot_be_drawn_breaks_nothing() -> None:
    with Pool([_old()] * 2) as pool:
        pool.reset()
        with refused(rl.errors.EnvError, "the process of environment 1"):
            pool.render(1)
        pool.step(np.zeros((2, 2), int))
        with refused(rl.errors.EnvError, "the process of environment 0"):
            pool.step(np.full((2, 2), 3))
        with refused(rl.errors.EnvError, "reset", got="render"):
            pool.render(1)


def test_processes_begin_and_end_at_the_same_time() -> None:
    start = time.monotonic()
    with Pool([_old()] * 4, patience=SLEEP) as pool:
        pool.reset()
        pool._patience = 0.5
        with refused(rl.errors.EnvError, "the process of environment 0"):
            pool.step(np.full((4, 2), 5))  # all four sleep
    assert time.monotonic() - start < SLEEP  # before any of them wakes


def test_what_cannot_travel_is_said() -> None:
    def make() -> Any:
        one = FromPymarl(Old())
        one.name = open("/dev/null")  # type: ignore[assignment]  # noqa: SIM115
        return one

    with refused(rl.errors.EnvError, "the process of environment 0"):
        Pool([make])


def test_the_memory_is_told_to_cut() -> None:
    with Pool([_old()] * 2, processes=1) as pool:
        memory = rl.Memory(pool.schema, capacity=100, lanes=2, seed=0)
        pool.reset()
        for _ in range(2):
            memory.append(**pool.step(np.zeros((2, 2), int)).row)
        with pytest.raises(rl.errors.EnvError):
            pool.step(np.full((2, 2), 3))
        pool.reset()
        memory.cut()
        for _ in range(2):
            memory.append(**pool.step(np.zeros((2, 2), int)).row)
        batch = memory.sample(100)
        np.testing.assert_array_equal(batch.next_obs[:, 0, 1], batch.obs[:, 0, 1] + 1)
