"""Particle worlds by themselves: properties that hold for every scenario."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relive as rl
from refusals import refused
from relive import envs
from relive.envs import particle
from relive.envs.particle.simple_tag import outside

NAMES = list(particle.SCENARIOS)


def act(env: Any, seeds: list[int], t: int) -> dict[str, np.ndarray]:
    """Actions that depend on an environment's own number and the time alone."""
    action = {}
    for group in env.groups:
        each = []
        for seed in seeds:
            random = np.random.default_rng([seed, t, len(group.key("action"))])
            space = group.action_space
            if hasattr(space, "n"):
                each.append(random.integers(0, space.n, len(group)))
            else:
                each.append(random.random((len(group), *space.shape), np.float32))
        action[group.key("action")] = np.stack(each)
    return action


def play(env: Any, seeds: list[int], steps: int, **reset: Any) -> list[dict[str, np.ndarray]]:
    env.reset(**reset)
    rows = []
    for t in range(steps):
        step = env.step(act(env, seeds, t))
        rows.append({**step.row, **{f"seen {key}": value for key, value in step.obs.items()}})
    return rows


def same(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert one.keys() == two.keys()
    for key, value in one.items():
        np.testing.assert_array_equal(value, two[key], err_msg=key)


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_an_environment_plays_the_same_whatever_is_beside_it(name: str, continuous: bool) -> None:
    options = {"continuous_actions": continuous, "state": True, "max_cycles": 7}
    many = play(envs.make(name, num_envs=9, **options), list(range(9)), 20, seed=5)
    few = play(envs.make(name, num_envs=4, **options), list(range(4)), 20, seed=5)
    alone = play(envs.make(name, num_envs=1, **options), [3], 20, seed=envs.seeds(5, 4)[3:])
    order = np.array([7, 0, 3, 3, 8])
    each = np.array(envs.seeds(5, 9))[order].tolist()
    mixed = play(envs.make(name, num_envs=5, **options), order.tolist(), 20, seed=each)
    again = play(envs.make(name, num_envs=9, **options), list(range(9)), 20, seed=5)
    for t in range(20):
        same(many[t], again[t])
        same({key: value[:4] for key, value in many[t].items()}, few[t])
        same({key: value[3:4] for key, value in many[t].items()}, alone[t])
        same({key: value[order] for key, value in many[t].items()}, mixed[t])


def test_sums_do_not_depend_on_the_number_of_environments() -> None:
    """With many agents in contact a matrix product would add up in another order for another number."""

    def run(count: int) -> np.ndarray:
        world = particle.World(particle.simple_tag(num_good=4, num_adversaries=5), count, max_cycles=1000)
        world.reset(seed=3)
        world.pos *= 0.3
        world.look()
        random = np.random.default_rng(0)
        for _ in range(60):
            chosen = {g.key("action"): random.integers(0, 5, (1, len(g))) for g in world.groups}
            world.step({key: np.repeat(value, count, axis=0) for key, value in chosen.items()})
        return world.pos

    most = run(80)
    for count in (1, 2, 3, 7, 21, 31, 37, 51, 64, 73):
        np.testing.assert_array_equal(run(count), most[..., :count])


@pytest.mark.parametrize("name", NAMES)
def test_seeds_differ_and_episodes_do_not_repeat(name: str) -> None:
    env = envs.make(name, num_envs=3)
    world: Any = env
    starts = []
    for seed in (0, 1):
        env.reset(seed=seed)
        starts.append(world.pos.copy())
    env.reset()  # goes on with the streams of the last seed
    starts.append(world.pos.copy())
    flat = np.concatenate(starts, axis=2)
    assert len(np.unique(flat[0, 0])) == 9


@pytest.mark.parametrize("name", NAMES)
def test_what_was_played_does_not_change_the_next_episode(name: str) -> None:
    first, second = envs.make(name, num_envs=2, max_cycles=5), envs.make(name, num_envs=2, max_cycles=5)
    first.reset(seed=1), second.reset(seed=1)
    for t in range(5):
        one, two = first.step(act(first, [0, 1], t)), second.step(act(second, [2, 3], t))
    same(one.obs, two.obs)


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_snapshot_goes_on_bit_for_bit(name: str, continuous: bool) -> None:
    env: Any = envs.make(name, num_envs=3, continuous_actions=continuous, max_cycles=9)
    play(env, [0, 1, 2], 13, seed=2)
    kept = env.snapshot()
    later = [env.step(act(env, [0, 1, 2], t)) for t in range(20)]
    other: Any = envs.make(name, num_envs=3, continuous_actions=continuous, max_cycles=9)
    seen = other.restore(kept)
    for t, step in enumerate(later):
        again = other.step(act(other, [0, 1, 2], t))
        same(step.row, again.row)
        same(step.obs, again.obs)
        if t == 0:
            same({key: again.row[key] for key in seen}, seen)
    for broken, about in (
        (
            {key: value for key, value in kept.items() if key != "vel"},
            "state['vel']",
        ),
        ({key: value for key, value in kept.items() if key != "dice/key"}, "state['dice/key']"),
        ({**kept, "dice/place": kept["dice/place"][:1]}, "state['dice/place']"),
        ({**kept, "pos": kept["pos"] * np.nan}, "state['pos']"),
    ):
        with refused(rl.errors.OptionError, about):
            other.restore(broken)
    same(other.step(act(other, [0, 1, 2], 20)).row, env.step(act(env, [0, 1, 2], 20)).row)  # nothing was changed


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_given_out_is_not_written_to_again(name: str, continuous: bool) -> None:
    env = envs.make(name, num_envs=2, max_cycles=3, state=True, continuous_actions=continuous)
    env.reset(seed=0)
    held: list[tuple[Any, Any]] = []
    for t in range(8):
        action = act(env, [0, 1], t)
        step = env.step(action)
        for value in (*step.obs.values(), *step.row.values()):
            held.append((value, value.copy()))
        for value in action.values():
            value[:] = 0  # the caller's own array
    for value, copy in held:
        np.testing.assert_array_equal(value, copy)


@pytest.mark.parametrize("name", NAMES)
def test_the_memory_takes_it(name: str) -> None:
    env = envs.make(name, num_envs=4, max_cycles=6, state=True)
    memory = rl.Memory(env.schema, capacity=400, lanes=4, seed=0)
    env.reset(seed=0)
    rows = [env.step(act(env, [0, 1, 2, 3], t)).row for t in range(30)]
    for row in rows:
        memory.append(**row)
    assert memory.episodes.truncated.sum() == 20
    batch = memory.sample(300)
    key = env.groups[0].name
    part = batch[key] if key else batch
    for lane, serial, obs, after in zip(batch.lanes, batch.serials, part.obs, part.next_obs, strict=True):
        t = int(serial) - int(serial) // 7  # a closing row after every six
        np.testing.assert_array_equal(rows[t][env.groups[0].key("obs")][lane], obs)
        last = t % 6 == 5
        wanted = rows[t][env.groups[0].key("final_obs")] if last else rows[t + 1][env.groups[0].key("obs")]
        np.testing.assert_array_equal(wanted[lane], after)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(NAMES), st.integers(0, 2**31), st.booleans())
def test_bounds(name: str, seed: int, continuous: bool) -> None:
    """Without contact no body gets faster than its push and the drag allow; with it energy stays bounded."""
    env: Any = envs.make(name, num_envs=8, continuous_actions=continuous, max_cycles=40)
    env.reset(seed=seed)
    agents = env.scenario.agents
    drag, dt = 0.25, 0.1
    for t in range(60):
        step = env.step(act(env, list(range(8)), t))
        for value in (*step.obs.values(), *step.row.values()):
            assert np.isfinite(value).all()
        speed = np.sqrt(np.square(env.vel).sum(axis=1))
        for i, agent in enumerate(agents):
            if agent.max_speed is not None:
                assert (speed[i] <= agent.max_speed * (1 + 1e-9)).all()
            elif not agent.collides:
                assert (speed[i] <= np.sqrt(2) * agent.accel * dt / drag + 1e-9).all()
            else:  # two bodies of radius r push with at most 100 * 2r while they overlap
                most = sum(100 * (agent.size + other.size) for other in (*agents, *env.scenario.landmarks))
                assert (speed[i] <= (np.sqrt(2) * agent.accel + most) * dt / drag).all()
        if name == "simple_crypto":
            assert (np.abs(step.row["eve/reward"]) <= 4).all()
        if name in ("simple", "simple_spread", "simple_speaker_listener", "simple_reference"):
            assert all((value <= 0).all() for key, value in step.row.items() if key.endswith("reward"))


def test_success_at_one_place_begins_anew_there_only() -> None:
    env: Any = envs.make("simple_spread", num_envs=3, N=1, terminate_on_success=True)
    env.reset(seed=0)
    env.pos[1, :, 1] = env.pos[0, :, 1]  # the landmark under the agent
    env.look()
    before = env.pos.copy()
    step = env.step(np.zeros((3, 1), int))
    np.testing.assert_array_equal(step.terminated, [False, True, False])
    assert not step.truncated.any()
    np.testing.assert_array_equal(env.time, [1, 0, 1])
    np.testing.assert_array_equal(step.info["covered"], [0, 1, 0])
    assert (env.pos[1, :, 1] != before[1, :, 1]).all()
    np.testing.assert_array_equal(env.pos[:, :, [0, 2]], before[:, :, [0, 2]])
    np.testing.assert_array_equal(step.row["final_obs"][[0, 2]], step.obs["obs"][[0, 2]])
    assert (step.row["final_obs"][1] != step.obs["obs"][1]).any()


def test_success_at_the_very_end_is_the_clocks() -> None:
    """As in mpe2: the last step of an episode is truncated, whatever else it is."""
    env: Any = envs.make("simple_spread", num_envs=1, N=1, terminate_on_success=True, max_cycles=1)
    env.reset(seed=0)
    env.pos[1] = env.pos[0]
    env.look()
    step = env.step(np.zeros((1, 1), int))
    assert step.truncated[0]
    assert not step.terminated[0]


def test_the_price_of_leaving() -> None:
    places = np.array([0.5, 0.95, 1.5, 1.0, 30.0])
    paid = outside(np.stack([places, np.zeros(5)])[None])[0]
    np.testing.assert_allclose(paid, [0, 0.5, np.e, 1, 10])


def test_bodies_in_one_place_part_without_breaking_numbers() -> None:
    env: Any = envs.make("simple_spread", num_envs=1)
    env.reset(seed=0)
    env.pos[:] = 0
    env.look()
    for _ in range(5):
        assert np.isfinite(env.step(np.array([[1, 2, 3]])).obs["obs"]).all()


def test_reports() -> None:
    env: Any = envs.make("simple_adversary", num_envs=2, max_cycles=1)
    env.reset(seed=0)
    env.pos[:] = 0
    env.pos[0, :, 0] = 1.0
    env.look()
    step = env.step({"adversary/action": np.zeros((2, 1), int), "agent/action": np.zeros((2, 2), int)})
    np.testing.assert_array_equal(step.info["agent_on_goal"], [True, True])
    np.testing.assert_array_equal(step.info["adversary_on_goal"], [False, True])


@pytest.mark.parametrize("name", ["simple_spread", "simple_tag", "simple_speaker_listener"])
def test_bodies_may_move_by_their_new_velocity(name: str) -> None:
    """Written plainly beside it: OpenAI's worlds change a velocity and then move by it."""
    env: Any = envs.make(name, num_envs=3, continuous_actions=True, velocity_first=True)
    env.reset(seed=1)
    env.pos *= 5  # far apart: nothing touches
    env.look()
    random = np.random.default_rng(0)
    for _ in range(10):
        pos, vel = env.pos.copy(), env.vel.copy()
        action = {g.key("action"): random.random((3, len(g), *g.action_space.shape), np.float32) for g in env.groups}
        env.step(action)
        moved = env.pos[: env.num_agents] - pos[: env.num_agents]
        np.testing.assert_allclose(moved, 0.1 * env.vel, rtol=1e-9, atol=1e-12)
        assert (env.vel != vel).any()


def test_an_adversary_may_lose_the_square_of_its_distance() -> None:
    plain, squared = (envs.make("simple_adversary", num_envs=5, squared=yes) for yes in (False, True))
    for env in (plain, squared):
        env.reset(seed=3)
    for _ in range(10):
        action = {"adversary/action": np.full((5, 1), 2), "agent/action": np.full((5, 2), 4)}
        one, two = plain.step(action).row, squared.step(action).row
        np.testing.assert_allclose(two["adversary/reward"], -(one["adversary/reward"] ** 2), rtol=1e-6)
        np.testing.assert_array_equal(two["agent/reward"], one["agent/reward"])


@pytest.mark.parametrize(
    ("name", "options", "about"),
    [
        ("simple_spread", {"N": 0}, "N"),
        ("simple_spread", {"local_ratio": 1.5}, "local_ratio"),
        (
            "simple_spread",
            {"num_agent_neighbors": 0},
            "num_agent_neighbors",
        ),
        ("simple_tag", {"prey_speed": 0}, "prey_speed"),
        ("simple_tag", {"prey_speed": "a"}, "prey_speed"),
        ("simple_tag", {"num_obstacles": -1}, "num_obstacles"),
        ("simple", {"num_envs": 0}, "num_envs"),
        ("simple", {"max_cycles": 2.5}, "max_cycles"),
    ],
)
def test_options_that_cannot_be(name: str, options: dict[str, Any], about: str) -> None:
    with refused(rl.errors.OptionError, about):
        envs.make(name, **options)


def test_a_scenario_of_ones_own() -> None:
    """What the docs show: a page is enough, and the interface does the rest."""

    def see(world: particle.World, me: int) -> list[np.ndarray]:
        return [world.vel[me], *world.to_agents(me)]

    scenario = particle.Scenario(
        name="meet",
        agents=tuple(particle.Agent(f"walker_{i}") for i in range(2)),
        landmarks=(),
        see=see,
        reward=lambda world: -world.distance[:, ::-1][:, :2].max(axis=1),
        begin=lambda world, rows, dice: world.pos.__setitem__((slice(None), slice(None), rows), 0.5),
    )
    env = particle.World(scenario, 4, state=True)
    seen = env.reset(seed=0)
    assert seen["obs"].shape == (4, 2, 4)
    assert (env.pos == 0.5).all()
    assert (env.step(np.ones((4, 2), int)).row["reward"] <= 0).all()
    assert env.render().shape == (360, 360, 3)
