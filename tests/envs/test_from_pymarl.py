"""Environments with PyMARL's methods as ours, and ours with PyMARL's methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relive as rl
from pymarl_world import New, Old, Sown
from refusals import refused
from relive import envs
from relive.envs.adapters import FromPymarl, SyncEnvs


@pytest.mark.parametrize("kind", [Old, New])
@pytest.mark.parametrize("wins_at", [None, 3])
@pytest.mark.parametrize("own", [False, True])
def test_both_signatures(kind: type[Any], wins_at: int | None, own: bool) -> None:
    env = SyncEnvs([FromPymarl(kind(wins_at=wins_at, own=own), shared_reward=not own) for _ in range(3)])
    assert env.max_episode_steps == 4
    assert env.groups[0].avail
    memory = rl.Memory(env.schema, capacity=300, lanes=3, seed=0, window=rl.Episodes(length=4))
    seen = env.reset()
    length = wins_at or 4
    for t in range(5 * length):
        time = t % length
        assert (seen["obs"][:, :, 1] == time).all()
        assert (seen["state"][:, 1] == time).all()
        np.testing.assert_array_equal(seen["avail_actions"][0, 0, :3], [(n + time) % 2 == 0 for n in range(3)])
        step = env.step(np.full((3, 2), time % 2))
        memory.append(**step.row)
        last = time == length - 1
        assert (step.terminated == (last and wins_at is not None)).all()
        assert (step.truncated == (last and wins_at is None)).all()
        np.testing.assert_array_equal(step.row["reward"], np.full((3, 2) if own else 3, time + 1))
        if last:
            assert (step.row["final_obs"][:, :, 1] == length).all()
            assert (step.row["final_state"][:, 1] == length).all()
            assert (step.info["battle_won"] == (wins_at is not None)).all()
        seen = step.obs
    batch = memory.sample(8)
    np.testing.assert_array_equal(batch.obs[:, :, 0, 1][:, : length + 1], np.tile(np.arange(length + 1), (8, 1)))
    env.close()


def test_seeds_go_where_they_can() -> None:
    seeds = [seed % 2**31 for seed in envs.seeds(7, 2)]
    for kind in (New, Sown):
        env = SyncEnvs([FromPymarl(kind()) for _ in range(2)])
        np.testing.assert_array_equal(env.reset(seed=7)["obs"][:, 0, 0], np.array(seeds, np.float32) + 1)
    env = SyncEnvs([FromPymarl(Old()) for _ in range(2)])
    with pytest.warns(
        UserWarning, match=r"^Old takes a seed when it is made, not when it is reset: this one has no eff"
    ):
        env.reset(seed=7)


def test_a_seed_among_the_options_becomes_each_ones_own() -> None:
    made: list[int] = []

    class Seeded(Old):
        def __init__(self, seed: int) -> None:
            made.append(seed)
            super().__init__()

    import pymarl_world

    pymarl_world.Seeded = Seeded  # type: ignore[attr-defined]
    envs.make("pymarl:pymarl_world:Seeded", num_envs=3, seed=7)
    assert made == [seed % 2**31 for seed in envs.seeds(7, 3)]


def test_agents_that_end_in_different_ways() -> None:
    class Each(New):
        def step(self, actions: Any) -> Any:
            obs, reward, _, _, info = super().step(actions)
            over = self.time >= 3
            return obs, [reward], [over, False], [False, over], info

    env = SyncEnvs([FromPymarl(Each())])
    env.reset(seed=0)
    for t in range(6):
        step = env.step(np.zeros((1, 2), int))
        assert step.truncated[0] == (t % 3 == 2)
        assert not step.terminated[0]
        assert step.row["reward"].shape == (1,)


def test_actions_are_looked_at_first() -> None:
    world = Old()
    env = SyncEnvs([FromPymarl(world)])
    env.reset()
    for action, about in (
        (np.zeros((1, 3), int), "action"),
        (np.full((1, 2), 1.9), "action"),
        (np.full((1, 2), 6), "action"),
    ):
        with refused(rl.errors.OptionError, about):
            env.step(action)
    assert not world.taken


def test_by_name() -> None:
    env = envs.make("pymarl:pymarl_world:Old", num_envs=2, limit=9, own=True, shared_reward=False)
    assert env.max_episode_steps == 9
    assert not env.shared_reward
    for name, about in (
        ("pymarl:pymarl_world", "environment"),
        ("pymarl:pymarl_world:Nope", "environment"),
    ):
        with refused(rl.errors.OptionError, about):
            envs.make(name)


def test_refusals() -> None:
    with refused(rl.errors.OptionError, "env"):
        FromPymarl(object())
    env = FromPymarl(Old(own=True))
    env.reset()
    with refused(rl.errors.EnvError, "reward of Old", got="[2]"):
        env.step({"action": np.zeros(2, int)})
    with refused(rl.errors.OptionError, "environment", got="Old"):
        env.render()
