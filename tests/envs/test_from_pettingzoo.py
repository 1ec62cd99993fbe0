"""PettingZoo's parallel environments as ours, and ours as PettingZoo's."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

import relive as rl
from refusals import refused
from relive import envs
from relive.envs.adapters import FromPettingZoo, SyncEnvs
from tide_world import Tide

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PettingZoo's tests import its own old names


def _act(env: Any, seen: dict[str, Any]) -> dict[str, Any]:
    random = np.random.default_rng(int(seen["bird/obs"][0, 0, 1]))
    fish = (random.random((env.num_envs, 3, 4)) * seen["fish/avail_actions"]).argmax(axis=2)
    return {"fish/action": fish, "bird/action": random.random((env.num_envs, 1, 2)).astype(np.float32)}


@pytest.mark.parametrize("masks", ["obs", "info"])
@pytest.mark.parametrize("bird_dies", [None, 4])
def test_agents_that_come_and_go(masks: str, bird_dies: int | None) -> None:
    env = SyncEnvs([FromPettingZoo(Tide(masks=masks, bird_dies=bird_dies)) for _ in range(2)])
    assert [(group.name, group.agents, group.avail, group.mask) for group in env.groups] == [
        ("fish", ("fish_0", "fish_1", "fish_2"), True, True),
        ("bird", ("bird_0",), False, True),
    ]
    memory = rl.Memory(env.schema, capacity=200, lanes=2, seed=0)
    seen = env.reset(seed=0)
    length = bird_dies or 6
    for t in range(4 * length):
        time = t % length
        there = [time < 3, time >= 2, True]
        np.testing.assert_array_equal(seen["fish/agent_mask"], [there, there])
        shown = [time <= 3, time >= 2, True]  # fish_0 sees something once more when its time is over
        np.testing.assert_array_equal(seen["fish/obs"][0, :, 1], np.where(shown, time, 0))
        np.testing.assert_array_equal(seen["fish/obs"][0, :, 2], np.where(shown, [1, 2, 3], 0))
        assert seen["bird/agent_mask"].all()
        np.testing.assert_array_equal(seen["state"][:, 1], [time, time])
        step = env.step(_act(env, seen))
        np.testing.assert_array_equal(step.row["fish/reward"][0], np.where(there, time + 1, 0))
        assert (step.terminated == (bird_dies is not None and time == length - 1)).all()
        assert (step.truncated == (bird_dies is None and time == length - 1)).all()
        assert (step.info["bird_0/t"] == time + 1).all()
        memory.append(**step.row)
        seen = step.obs
    batch = memory.sample(300)
    np.testing.assert_array_equal(batch.bird.next_obs[:, 0, 1], batch.bird.obs[:, 0, 1] + 1)
    np.testing.assert_array_equal(batch.bird.next_obs[:, 0, 0], batch.bird.obs[:, 0, 0])
    gone = (batch.bird.obs[:, 0, 1] == 2)[:, None] & np.array([True, False, False])
    assert not batch.fish.next_agent_mask[gone.nonzero()].any()
    assert batch.fish.agent_mask[gone.nonzero()].all()
    last = batch.terminated | batch.truncated
    expected = [True] if bird_dies is None else [False]  # the dead are gone; those cut off are not
    assert (batch.bird.next_agent_mask[last] == expected).all()


class Small(ParallelEnv):  # type: ignore[type-arg, misc]
    """Two agents; what differs is given."""

    metadata: ClassVar[dict[str, Any]] = {"name": "small"}

    def __init__(self, agents: list[Any], keeps_agents: bool = False, spaces_of: Any = None) -> None:
        self.possible_agents = agents
        self.keeps_agents = keeps_agents
        self.spaces_of = spaces_of or (lambda agent: spaces.Box(-1, 99, (2,), np.float32))
        self.buffer = np.zeros(2, np.float32)

    def observation_space(self, agent: Any) -> Any:
        return self.spaces_of(agent)

    def action_space(self, agent: Any) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        self.time = 0
        return {a: self.spaces_of(a).sample() for a in self.agents}, dict.fromkeys(self.agents)

    def step(self, actions: Any) -> Any:
        self.time += 1
        over = self.time >= 2
        acted = self.agents
        if over and not self.keeps_agents:
            self.agents = []
        return (
            {a: self.spaces_of(a).sample() for a in acted},
            dict.fromkeys(acted, 1.0),
            dict.fromkeys(acted, over),
            dict.fromkeys(acted, False),
            dict.fromkeys(acted),
        )

    def state(self) -> Any:
        self.buffer[:] = self.time
        return self.buffer


def test_agents_that_are_not_cleared_at_the_end() -> None:
    env = SyncEnvs([FromPettingZoo(Small(["a_0", "a_1"], keeps_agents=True))])
    env.reset()
    for _ in range(3):
        assert not env.step(np.zeros((1, 2), int)).ended[0]
        step = env.step(np.zeros((1, 2), int))
        assert step.terminated[0]
        assert step.row["final_state"][0, 0] == 2  # though the environment shows the same array again
        assert step.obs["state"][0, 0] == 0


@pytest.mark.parametrize(
    "agents",
    [["obs_0", "b_0"], ["state_0", "b_0"], [0, 1], ["red_3_0", "red_0", "red_1"], ["a/0", "b 0"], ["items_1", "x"]],
)
def test_any_names_of_agents(agents: list[Any]) -> None:
    def of(agent: Any) -> Any:
        return spaces.Box(-1, 99, (2 + agents.index(agent),), np.float32)

    env = SyncEnvs([FromPettingZoo(Small(agents, spaces_of=of))])
    memory = rl.Memory(env.schema, capacity=50, lanes=1)
    env.reset()
    for _ in range(5):
        memory.append(**env.step({g.key("action"): np.zeros((1, 1), int) for g in env.groups}).row)
    assert len(memory) == 5
    assert len({group.name for group in env.groups}) == len(agents)


def test_more_beside_the_mask() -> None:
    def of(_: Any) -> Any:
        box = spaces.Box(0, 1, (2,), np.float32)
        return spaces.Dict(observation=box, more=box, action_mask=spaces.MultiBinary(2))

    env = SyncEnvs([FromPettingZoo(Small(["a_0", "a_1"], spaces_of=of))])
    assert set(env.reset()) == {"obs/observation", "obs/more", "agent_mask", "avail_actions", "state"}


def test_no_masks_no_state() -> None:
    one = FromPettingZoo(Tide(masks="", has_state=False))
    assert not one.groups[0].avail
    assert one.state_space is None
    assert "state" not in one.reset()


@pytest.mark.parametrize("name", ["simple_spread_v3", "simple_world_comm_v3", "simple_speaker_listener_v4"])
def test_mpe2_by_name_is_our_world(name: str) -> None:
    theirs = envs.make(f"pettingzoo:mpe2.{name}", num_envs=2)
    ours = envs.make(name[:-3], num_envs=2, state=True)
    assert [(g.name, g.agents, g.obs_space, g.action_space) for g in theirs.groups] == [
        (g.name, g.agents, g.obs_space, g.action_space) for g in ours.groups
    ]
    assert theirs.max_episode_steps == ours.max_episode_steps == 25
    assert theirs.state_space == ours.state_space
    first = theirs.reset(seed=4)
    np.testing.assert_array_equal(theirs.reset(seed=4)["state"], first["state"])
    random = np.random.default_rng(0)
    memory = rl.Memory(theirs.schema, capacity=200, lanes=2)
    for _ in range(30):
        step = theirs.step({g.key("action"): random.integers(0, g.action_space.n, (2, len(g))) for g in theirs.groups})
        memory.append(**step.row)
    assert memory.episodes.truncated.sum() == 2
    theirs.close()


def test_what_pettingzoo_registers() -> None:
    env = envs.make("pettingzoo:classic/rps-v2", num_envs=2)
    assert [group.agents for group in env.groups] == [("player_0", "player_1")]
    env.reset(seed=0)
    step = env.step(np.array([[0, 1], [2, 1]]))
    np.testing.assert_array_equal(step.row["reward"], [[-1, 1], [1, -1]])
    with refused(rl.errors.OptionError, "environment"):
        envs.make("pettingzoo:sisl/xyz-v5")


def test_names_that_lead_nowhere() -> None:
    for name, about in (
        ("pettingzoo:no_such_module", "environment"),
        ("pettingzoo:math", "environment"),
        (
            "zoo:math",
            "environment",
        ),
        ("pettingzoo:", "environment"),
    ):
        with refused(rl.errors.OptionError, about):
            envs.make(name)
