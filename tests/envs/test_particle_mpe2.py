"""Every particle world, step by step beside mpe2's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpe2_side import copy_state, peers
from relive.envs import particle
from relive.envs.particle.bodies import Scenario

COUNT, STEPS = 6, 25

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in particle.SCENARIOS),
    ("simple_spread", {"N": 1}),
    ("simple_spread", {"N": 5, "local_ratio": 0.1}),
    ("simple_spread", {"N": 4, "num_agent_neighbors": 2, "num_landmark_neighbors": 3}),
    ("simple_spread", {"N": 2, "num_agent_neighbors": 3, "num_landmark_neighbors": 5}),
    ("simple_spread", {"N": 1, "num_agent_neighbors": 2}),
    ("simple_tag", {"num_obstacles": 0, "num_landmark_neighbors": 2}),
    ("simple_adversary", {"N": 4}),
    ("simple_adversary", {"N": 3, "num_agent_neighbors": 2, "num_landmark_neighbors": 2}),
    ("simple_tag", {"num_good": 2, "num_adversaries": 4, "num_obstacles": 3}),
    ("simple_tag", {"num_obstacles": 0}),
    ("simple_tag", {"num_good": 2, "num_agent_neighbors": 2, "num_landmark_neighbors": 1}),
    ("simple_tag", {"num_agent_neighbors": 6, "num_landmark_neighbors": 3}),
    ("simple_reference", {"local_ratio": 0.9}),
    ("simple_world_comm", {"num_good": 3, "num_adversaries": 3, "num_obstacles": 2, "num_food": 1, "num_forests": 1}),
]


def _joined(world: particle.World, values: dict[str, np.ndarray], field: str) -> dict[str, np.ndarray]:
    return {
        agent: values[group.key(field)][:, place] for group in world.groups for place, agent in enumerate(group.agents)
    }


def _gather(scenario: Scenario, envs: list[Any]) -> None:
    """Bring bodies close together, so that they touch, hide and leave the field."""
    for env in envs:
        for entity in env.unwrapped.world.entities:
            entity.state.p_pos *= 0.4


@pytest.mark.parametrize("close", [False, True], ids=["apart", "close"])
@pytest.mark.parametrize("continuous", [False, True], ids=["discrete", "continuous"])
@pytest.mark.parametrize(
    ("name", "options"), OPTIONS, ids=[f"{n}-{'-'.join(map(str, o.values()))}" for n, o in OPTIONS]
)
def test_same_as_mpe2(name: str, options: dict[str, Any], continuous: bool, close: bool) -> None:
    scenario = particle.SCENARIOS[name](**options)
    world = particle.World(scenario, COUNT, max_cycles=STEPS, continuous_actions=continuous, state=True)
    envs = peers(name, COUNT, max_cycles=STEPS, continuous=continuous, **options)
    names = envs[0].possible_agents
    assert [agent for group in world.groups for agent in group.agents] == names
    for group in world.groups:
        for agent in group.agents:
            assert group.obs_space == envs[0].observation_space(agent)
            assert group.action_space == envs[0].action_space(agent)
    assert world.state_space == envs[0].state_space
    if close:
        _gather(scenario, envs)
    world.reset(seed=0)
    copy_state(world, envs)
    seen = _joined(world, world.look(), "obs")
    if not close:
        for e, env in enumerate(envs):
            for agent in names:
                np.testing.assert_allclose(seen[agent][e], env.unwrapped.observe(agent), atol=1e-6)
    random = np.random.default_rng(1)
    for t in range(STEPS):
        action = {}
        for group in world.groups:
            shape = (COUNT, len(group))
            if continuous:  # beyond the bounds too: both clip
                action[group.key("action")] = random.uniform(-0.2, 1.2, (*shape, *group.action_space.shape)).astype(
                    "f4"
                )
            else:
                action[group.key("action")] = random.integers(0, group.action_space.n, shape)
        step = world.step(action)
        last = t == STEPS - 1
        prefix = "final_" if last else ""
        where = step.row if last else step.obs
        seen, done = _joined(world, where, f"{prefix}obs"), _joined(world, action, "action")
        reward = _joined(world, step.row, "reward")
        assert (step.truncated == last).all()
        assert not step.terminated.any()
        for e, env in enumerate(envs):
            obs, rewards, terminated, truncated, _ = env.step({agent: done[agent][e].copy() for agent in names})
            for agent in names:
                np.testing.assert_allclose(seen[agent][e], obs[agent], atol=1e-5, err_msg=f"{agent} at {t}")
                np.testing.assert_allclose(reward[agent][e], rewards[agent], atol=1e-5, err_msg=f"{agent} at {t}")
                assert truncated[agent] == last
                assert not terminated[agent]
            np.testing.assert_allclose(where[f"{prefix}state"][e], env.state(), atol=1e-5)


@pytest.mark.parametrize("name", ["simple_spread", "simple_tag"])
def test_success_ends_an_episode_where_mpe2_ends_it(name: str) -> None:
    options: dict[str, Any] = {"N": 1} if name == "simple_spread" else {"num_adversaries": 2}
    world = particle.World(
        particle.SCENARIOS[name](**options, terminate_on_success=True), COUNT, max_cycles=200, continuous_actions=False
    )
    envs = peers(name, COUNT, max_cycles=200, continuous=False, **options, terminate_on_success=True)
    world.reset(seed=0)
    copy_state(world, envs)
    world.look()
    ends = 0
    random = np.random.default_rng(0)
    for _ in range(120):
        action = {group.key("action"): random.integers(0, 5, (COUNT, len(group))) for group in world.groups}
        if name == "simple_spread":  # pushed by chance, drawn to the landmark
            to_landmark = world.offset[0, 1] - 0.5 * world.vel[0]
            x, y = np.where(to_landmark[0] > 0, 2, 1), np.where(to_landmark[1] > 0, 4, 3)
            action = {"action": np.where(random.random(COUNT) < 0.5, x, y)[:, None]}
        step = world.step(action)
        done = _joined(world, action, "action")
        for e, env in enumerate(envs):
            _, _, terminated, _, _ = env.step({agent: int(done[agent][e]) for agent in env.possible_agents})
            assert all(terminated.values()) == step.terminated[e]
            if step.terminated[e]:
                ends += 1
                env.reset()
        if step.terminated.any():
            copy_state(world, envs)
            world.look()
    assert ends > 0


def test_stages_of_the_curriculum() -> None:
    """What mpe2 calls stages are options here."""
    (env,) = peers("simple_tag", 1, continuous=False, curriculum=True)  # mpe2 1.1.1 never leaves stage 0
    theirs = env.unwrapped.world.agents[3]
    ours = particle.simple_tag(prey_speed=0.5).agents[3]
    assert (ours.accel, ours.max_speed) == (theirs.accel, theirs.max_speed)
    (env,) = peers("simple_spread", 1, continuous=False, curriculum=True)
    world = particle.World(particle.simple_spread(collision_penalty=False))
    _gather(world.scenario, [env])
    world.reset(seed=0)
    copy_state(world, [env])
    world.look()
    step = world.step(np.zeros((1, 3), int))
    _, rewards, *_ = env.step(dict.fromkeys(env.possible_agents, 0))
    np.testing.assert_allclose(step.row["reward"][0], list(rewards.values()), rtol=1e-6)
