"""Our environments as PettingZoo's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from pettingzoo.utils.conversions import parallel_to_aec

import relive as rl
from refusals import refused
from relive import envs
from relive.envs.adapters import FromPettingZoo, SyncEnvs, ToPettingZoo
from tide_world import Tide

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PettingZoo's tests import its own old names
    from pettingzoo.test import parallel_api_test, parallel_seed_test, seed_test


NOT_HERE = ("battle", "bitflip")  # agents do not stay; one agent, who sees a Dict


WORLDS = [entry.name for entry in envs.entries() if entry.name not in NOT_HERE]


@pytest.mark.parametrize("name", WORLDS)
def test_pettingzoos_own_tests(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for continuous in (False, True):
            if continuous and "continuous_actions" not in envs.find(name).options:
                continue
            options = {"continuous_actions": True} if continuous else {}
            parallel_api_test(ToPettingZoo(envs.make(name, **options)), num_cycles=80)
            parallel_seed_test(lambda o=options: ToPettingZoo(envs.make(name, **o), unavailable="first"), num_cycles=30)
            seed_test(lambda o=options: parallel_to_aec(ToPettingZoo(envs.make(name, **o))), num_cycles=30)


def test_what_cannot_be_shown_is_refused() -> None:
    with refused(rl.errors.OptionError, "space"):
        ToPettingZoo(envs.make("bitflip"))


def test_there_and_back() -> None:
    """Through PettingZoo's interface and back everything stays the same."""
    for name in ("simple_tag", "marines_3v3"):
        direct = envs.make(name, num_envs=1)
        again = SyncEnvs([FromPettingZoo(ToPettingZoo(envs.make(name)))])
        seen, other = direct.reset(seed=[5]), again.reset(seed=[5])
        random = np.random.default_rng(0)
        for _ in range(70):
            for group in direct.groups:
                np.testing.assert_array_equal(seen[group.key("obs")], other[group.key("obs")])
            action = {}
            for group in direct.groups:
                chance = random.random((1, len(group), group.action_space.n))  # type: ignore[attr-defined]
                allowed = seen[group.key("avail_actions")] if group.avail else 1
                action[group.key("action")] = (chance * allowed).argmax(axis=2)
            one, two = direct.step(action), again.step(action)
            for group in direct.groups:
                reward = one.row["reward"][:, None] if direct.shared_reward else one.row[group.key("reward")]
                np.testing.assert_allclose(two.row[group.key("reward")], np.broadcast_to(reward, (1, len(group))))
            np.testing.assert_array_equal(one.terminated, two.terminated)
            np.testing.assert_array_equal(one.truncated, two.truncated)
            if one.ended[0]:
                for key in one.row:
                    if "final_obs" in key:
                        np.testing.assert_array_equal(one.row[key], two.row[key])
                seen, other = direct.reset(seed=[6]), again.reset(seed=[6])
            else:
                seen, other = one.obs, two.obs


def test_to_pettingzoo_refuses() -> None:
    with refused(rl.errors.OptionError, "env", got="2"):
        ToPettingZoo(envs.make("simple", num_envs=2))
    with refused(rl.errors.OptionError, "unavailable", got="'ask'"):
        ToPettingZoo(envs.make("simple"), unavailable="ask")  # type: ignore[arg-type]
    with refused(rl.errors.OptionError, "env", got="tide, where they come and go"):
        ToPettingZoo(SyncEnvs([FromPettingZoo(Tide())]))
    env = ToPettingZoo(envs.make("simple_tag"))
    with refused(rl.errors.OptionError, "reset", got="state"):
        env.state()
    env.reset()
    with refused(rl.errors.OptionError, "actions", got="none for agent_0"):
        env.step(dict.fromkeys(["adversary_0", "adversary_1", "adversary_2"], 0))
    with pytest.raises(NotImplementedError, match="make it with state=True"):
        env.state()
    assert ToPettingZoo(envs.make("simple_tag", state=True)).state_space.shape == (62,)
    marines = ToPettingZoo(envs.make("marines_3v3"))
    marines.reset(seed=0)
    with refused(rl.errors.OptionError, "action[0, 0]", got="0"):
        marines.step(dict.fromkeys(marines.agents, 0))
    assert marines.state().shape == (12 + 9 + 27,)
    world = ToPettingZoo(envs.make("simple", max_cycles=1, state=True))
    world.reset(seed=0)
    obs, *_ = world.step({"agent_0": 1})
    np.testing.assert_array_equal(world.state(), obs["agent_0"])  # what the episode ended with, not the next one's
    assert marines.render().shape[2] == 3
