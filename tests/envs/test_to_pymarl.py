"""Our environments as PyMARL's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relive as rl
from refusals import refused
from relive import envs
from relive.envs.adapters import FromPymarl, SyncEnvs, ToPymarl


@pytest.mark.parametrize("name", [entry.name for entry in envs.entries() if "state" in entry.options])
@pytest.mark.parametrize("steps", ["pymarl", "epymarl"])
def test_there_and_back(name: str, steps: Any) -> None:
    """Played through PyMARL's methods and back, every world gives what it gives directly."""
    options = {} if name.startswith("marines") else {"state": True}
    direct = envs.make(name, num_envs=2, **options)
    again = SyncEnvs([FromPymarl(ToPymarl(envs.make(name, **options), steps=steps)) for _ in range(2)])
    info = ToPymarl(envs.make(name, **options)).get_env_info()
    assert again.groups[0].obs_space.shape == (info["obs_shape"],)
    seen, other = direct.reset(seed=[seed % 2**31 for seed in envs.seeds(8, 2)]), again.reset(seed=8)
    random = np.random.default_rng(0)
    ends = 0
    for _ in range(62):
        np.testing.assert_array_equal(seen["state"], other["state"])
        first = 0
        for group in direct.groups:
            own = seen[group.key("obs")]
            theirs = other["obs"][:, first : first + len(group)]
            np.testing.assert_array_equal(theirs[..., : own.shape[2]], own)
            assert not theirs[..., own.shape[2] :].any()
            first += len(group)
        action = (random.random(other["avail_actions"].shape) * other["avail_actions"]).argmax(axis=2)
        parts = np.split(action, np.cumsum([len(group) for group in direct.groups])[:-1], axis=1)
        one = direct.step({group.key("action"): part for group, part in zip(direct.groups, parts, strict=True)})
        two = again.step(action)
        rewards = [one.row[group.key("reward")] for group in direct.groups] if not direct.shared_reward else []
        wanted = np.concatenate(rewards, axis=1).sum(axis=1) if rewards else one.row["reward"]
        np.testing.assert_allclose(two.row["reward"], wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(one.terminated, two.terminated)
        np.testing.assert_array_equal(one.truncated, two.truncated)
        if one.ended.any():
            ends += 1
            np.testing.assert_array_equal(one.row["final_state"], two.row["final_state"])
            if not one.ended.all():  # begun anew by itself one plays on, the other's next episode is another one
                break
            seen, other = direct.reset(seed=[ends, ends + 9]), again.reset(seed=[ends, ends + 9])
        else:
            seen, other = one.obs, two.obs
    assert ends > 0


def test_padding_and_mean_reward() -> None:
    env = ToPymarl(envs.make("simple_speaker_listener"), reward="mean")
    with refused(rl.errors.OptionError, "reset", got="nothing"):
        env.get_obs()
    env.reset(seed=0)
    assert env.get_env_info() == {
        "state_shape": 22,
        "obs_shape": 11,
        "n_actions": 5,
        "n_agents": 2,
        "episode_limit": 25,
    }
    assert env.get_avail_actions() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    assert not env.get_obs()[0][3:].any()
    assert env.get_state().shape == (22,)
    reward, ended, _ = env.step([2, 1])
    assert reward < 0
    assert not ended
    with refused(rl.errors.OptionError, "speaker/action", got="4"):
        env.step([4, 1])
    with refused(rl.errors.OptionError, "actions", got="3"):
        env.step([0, 1, 1])
    for _ in range(24):
        _, ended, info = env.step([0, 0])
    assert ended
    assert info["episode_limit"]


def test_to_pymarl_refuses() -> None:
    for options, about in (
        ({"num_envs": 2}, "env"),
        ({"continuous_actions": True}, "env"),
    ):
        with refused(rl.errors.OptionError, about):
            ToPymarl(envs.make("simple_spread", **options))
    with refused(rl.errors.OptionError, "steps", got="'x'"):
        ToPymarl(envs.make("simple"), steps="x")  # type: ignore[arg-type]
