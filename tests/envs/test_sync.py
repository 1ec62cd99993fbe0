"""Single environments side by side in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import relive as rl
from counting_world import Counter, check_counts
from refusals import refused
from relive.envs.adapters import FromGymnasium, FromGymnasiumVector, SyncEnvs


@pytest.mark.parametrize("nested", [False, True])
def test_single_environments_in_lockstep(nested: bool) -> None:
    env = SyncEnvs(
        [FromGymnasium(Counter(n, nested)) for n in (2, 4)] if not nested else [FromGymnasium(Counter(3, True))] * 1
    )
    memory = rl.Memory(env.schema, capacity=400, lanes=env.num_envs, seed=0)
    env.reset(seed=0)
    count = env.num_envs
    action: Any = np.full((count, 1), 3)
    if nested:
        action = {"action/0": np.ones((count, 1), int), "action/1": np.zeros((count, 1, 2), np.float32)}
    for _ in range(40):
        step = env.step(action)
        memory.append(**step.row)
        assert step.info["clock"].shape == (count,)
    assert len(memory) == 40 * count
    if not nested:
        check_counts(memory.sample(200))
    env.close()


def test_seeds_do_not_depend_on_the_number_beside() -> None:
    class Dice(Counter):
        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            self.episode = int(self.np_random.integers(1_000_000))
            return self._see(), {}

    many = SyncEnvs([FromGymnasium(Dice()) for _ in range(5)])
    few = SyncEnvs([FromGymnasium(Dice()) for _ in range(2)])
    np.testing.assert_array_equal(many.reset(seed=3)["obs"][:2], few.reset(seed=3)["obs"])
    vector = FromGymnasiumVector(SyncVectorEnv([Dice] * 3))
    np.testing.assert_array_equal(many.reset(seed=3)["obs"][:3], vector.reset(seed=3)["obs"])
    assert len(np.unique(many.reset(seed=3)["obs"][:, 0, 0])) == 5


class OneArray(Counter):
    """Shows everything in the same array, written to again."""

    buffer = np.zeros(2, np.float32)

    def __init__(self, length: int = 3) -> None:
        super().__init__(length)
        self.buffer = np.zeros(2, np.float32)

    def _see(self) -> Any:
        self.buffer[:] = self.episode, self.time
        return self.buffer


def test_environments_that_show_the_same_array_again() -> None:
    env = SyncEnvs([FromGymnasium(OneArray(n)) for n in (2, 3)])
    memory = rl.Memory(env.schema, capacity=400, lanes=2, seed=0)
    env.reset()
    for _ in range(40):
        memory.append(**env.step(np.ones((2, 1), int)).row)
    check_counts(memory.sample(300))


def test_infos_that_are_no_numbers_are_passed_over() -> None:
    class Chatty(Counter):
        def step(self, action: Any) -> Any:
            *rest, _ = super().step(action)
            return (*rest, {"path": [[1, 2], [3]], "word": "x", "n": np.float64(2), "none": None, "a": np.array(3)})

    env = SyncEnvs([FromGymnasium(Chatty()), FromGymnasium(Counter())])
    env.reset()
    info = env.step(np.ones((2, 1), int)).info
    np.testing.assert_array_equal(info["n"], [2, np.nan])
    np.testing.assert_array_equal(info["a"], [3, np.nan])
    assert "path" not in info
    assert "word" not in info


def test_after_an_error_none_goes_on_before_a_reset() -> None:
    class Fragile(Counter):
        def step(self, action: Any) -> Any:
            if action == 3:
                raise RuntimeError("broken")
            return super().step(action)

    env = SyncEnvs([FromGymnasium(Counter()), FromGymnasium(Fragile())])
    env.reset()
    with refused(RuntimeError, "step of environment 1 (Counter)"):
        env.step(np.array([[1], [3]]))
    with refused(rl.errors.OptionError, "reset", got="step"):
        env.step(np.ones((2, 1), int))
    env.reset()
    env.step(np.ones((2, 1), int))
