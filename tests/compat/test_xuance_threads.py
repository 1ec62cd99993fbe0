"""Memories of many agents under threads that store, read and save at once; rows say who they are."""

from __future__ import annotations

import os
import threading
import traceback
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from relive.compat.xuance import memory_tools_marl as xm
from waiting import until

KEYS = ["a", "b"]
SPACES: dict[str, Any] = {
    "agent_keys": KEYS,
    "obs_space": dict.fromkeys(KEYS, gymnasium.spaces.Box(-1e9, 1e9, (3,), np.float32)),
    "act_space": dict.fromkeys(KEYS, gymnasium.spaces.Box(-1e9, 1e9, (2,), np.float32)),
    "n_envs": 2,
    "buffer_size": 24,
    "batch_size": 8,
    "max_episode_steps": 4,
}


def step(number: int) -> dict[str, Any]:
    """A step all of whose numbers are the same, so that a torn one shows."""
    sizes = {"obs": (2, 3), "obs_next": (2, 3), "actions": (2, 2), "rewards": (2,), "terminals": (2,)}
    return {
        name: {key: np.full(size, number if name != "terminals" else 0, np.float32) for key in KEYS}
        for name, size in sizes.items()
    }


def whole(batch: Any) -> None:
    """Every row is of one step, that of both agents."""
    numbers = batch["rewards"]["a"]
    for key in KEYS:
        assert (batch["rewards"][key] == numbers).all()
        assert (batch["actions"][key] == numbers[..., None]).all()
        assert (batch["obs"][key][:, : numbers.shape[1] if numbers.ndim > 1 else None] == numbers[..., None]).all()


def episode(buffer: Any, number: int) -> None:
    for t in range(4):
        buffer.store(**step(number), episode_steps=t)
    last = {"obs": {key: np.full(3, number, np.float32) for key in KEYS}, "episode_step": 4}
    for env in range(2):
        buffer.finish_path(env, **last)


@pytest.mark.parametrize("kind", ["MARL_OffPolicyBuffer", "MARL_OffPolicyBuffer_RNN"])
def test_threads_and_a_saver(kind: str, tmp_path: Path) -> None:
    buffer = getattr(xm, kind)(**SPACES)
    write = (lambda number: episode(buffer, number)) if "RNN" in kind else (lambda number: buffer.store(**step(number)))
    write(0)
    stop, problems = threading.Event(), list[BaseException]()

    def guarded(work: Any) -> Any:
        def run() -> None:
            try:
                while not stop.is_set():
                    work()
            except BaseException as problem:
                problems.append(problem)

        return run

    numbers = iter(range(1, 10**9))

    def saved() -> None:
        buffer.save(tmp_path)
        other = getattr(xm, kind)(**SPACES)
        other.load(tmp_path)
        whole(other.sample())

    works = [lambda: write(next(numbers)), lambda: whole(buffer.sample()), saved]  # one writer: steps come in order
    threads = [threading.Thread(target=guarded(work)) for work in works]
    for thread in threads:
        thread.start()
    stop.wait(0.5)
    until(lambda: problems or next(numbers) > 200)
    stop.set()
    for thread in threads:
        thread.join()
    assert not problems, problems


def test_a_child_of_a_process_whose_thread_stores() -> None:
    buffer = xm.MARL_OffPolicyBuffer_RNN(**SPACES)
    episode(buffer, 0)
    stop = threading.Event()

    def write() -> None:
        number = 1
        while not stop.is_set():
            episode(buffer, number)
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    codes = []
    for _ in range(5):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                buffer.clear_episodes()
                episode(buffer, 7)
                whole(buffer.sample())
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    stop.set()
    thread.join()
    assert codes == [0] * 5
