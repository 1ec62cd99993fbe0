"""The battle of many: by hand, against a plain one, and with MAgent2's own as the judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from magent2.environments import battle_v4

from refusals import refused
from relive import Memory, envs
from relive.envs.battle import ATTACKS, MOVES, Battle
from relive.envs.battle.rules import STAY, starts
from relive.errors import OptionError

EAST, WEST = (MOVES.tolist().index(step) for step in ([1, 0], [-1, 0]))


def strike(x: int, y: int) -> int:
    """The action that strikes at a cell."""
    return len(MOVES) + ATTACKS.tolist().index([x, y])


def placed(red: list[tuple[int, int]], blue: list[tuple[int, int]], **options: Any) -> Battle:
    """A battle of a few who stand where they are put; all others are dead."""
    env = Battle(map_size=20, **options)
    env.reset(seed=0)
    field = env.field
    field.hit_points[:] = 0
    for first, cells in ((0, red), (field.team, blue)):
        for number, cell in enumerate(cells):
            field.pos[0, first + number], field.hit_points[0, first + number] = cell, 10
    env.look()
    return env


def act(env: Battle, red: list[int], blue: list[int]) -> Any:
    """A step in which all others stay where they are."""
    given = {}
    for group, some in zip(env.groups, (red, blue), strict=True):
        given[group.key("action")] = np.full((1, len(group)), STAY)
        given[group.key("action")][0, : len(some)] = some
    return env.step(given)


def test_sizes() -> None:
    assert len(MOVES) == 13
    assert len(ATTACKS) == 8
    env = envs.make("battle", num_envs=2)
    assert [(group.name, len(group)) for group in env.groups] == [("red", 64), ("blue", 64)]
    assert env.reset(seed=0)["red/obs"].shape == (2, 64, 13, 13, 5)
    assert len(Battle(map_size=45).groups[0]) == 81


def test_the_rewards_of_a_kill_by_hand() -> None:
    """Five strikes at .2 - .1 - .005; each takes 2 of which .1 comes back; the sixth kills: 5 - .1 - .005."""
    env = placed([(10, 10)], [(11, 10)])
    for left in (8.1, 6.2, 4.3, 2.4, 0.5):
        step = act(env, [strike(1, 0)], [])
        assert step.row["red/reward"][0, 0] == pytest.approx(0.095)
        assert step.row["blue/reward"][0, 0] == pytest.approx(-0.005)
        assert env.field.hit_points[0, env.field.team] == pytest.approx(left)
    step = act(env, [strike(1, 0)], [])
    assert step.row["red/reward"][0, 0] == pytest.approx(4.895)
    assert step.row["blue/reward"][0, 0] == pytest.approx(-0.1)
    assert step.terminated[0]
    assert step.info["red_won"][0]
    assert not step.info["blue_won"][0]
    assert not step.row["blue/final_agent_mask"].any()
    assert step.row["red/final_agent_mask"].sum() == 1


def test_strikes_at_nothing_and_at_ones_own() -> None:
    env = placed([(10, 10), (11, 10)], [(2, 2)])
    step = act(env, [strike(1, 0), strike(0, 1)], [])
    np.testing.assert_allclose(step.row["red/reward"][0, :2], -0.105)
    assert env.field.hit_points[0, 1] == 10


def test_nobody_stands_where_another_does_or_in_a_wall() -> None:
    env = placed([(10, 10), (12, 10), (1, 1)], [(2, 15)])
    act(env, [EAST, WEST, WEST], [])
    cells = env.field.pos[0, :3].tolist()
    assert sorted(cells[:2]) in ([[10, 10], [11, 10]], [[11, 10], [12, 10]])  # whoever came first
    assert cells[2] == [1, 1]


def test_the_dead_strike_no_more() -> None:
    """Both would kill the other: in a random order one of them does, about as often as the other."""
    won = []
    for seed in range(200):
        env = placed([(10, 10)], [(11, 10)])
        env.reset(seed=seed)
        env.field.hit_points[:] = 0
        for unit, cell in ((0, (10, 10)), (env.field.team, (11, 10))):
            env.field.pos[0, unit], env.field.hit_points[0, unit] = cell, 1
        env.look()
        step = act(env, [strike(1, 0)], [strike(-1, 0)])
        assert step.info["red_won"][0] != step.info["blue_won"][0]
        won.append(step.info["red_won"][0])
    assert 70 < sum(won) < 130  # 3 in 100,000 for a fair coin


def test_a_picture_by_hand() -> None:
    env = placed([(2, 10), (4, 10)], [(2, 13), (8, 10), (2, 17)])
    env.field.hit_points[0, env.field.team] = 5
    obs = env.look()["red/obs"][0, 0]
    assert obs[6, 6].tolist() == [0, 255, 255, 0, 0]
    assert obs[6, 8].tolist() == [0, 255, 255, 0, 0]
    assert obs[9, 6].tolist() == [0, 0, 0, 255, 128]
    assert obs[6, 12].tolist() == [0, 0, 0, 255, 255]
    assert obs[:, :, 3].sum() == 2 * 255  # the third blue one is seven cells away
    assert obs[:, 4, 0].tolist() == [0, *[255] * 11, 0]  # the wall, as far as the circle reaches
    blue = env.look()["blue/obs"][0, 0]
    assert blue[3, 6].tolist() == [0, 0, 0, 255, 255]
    assert not env.look()["red/obs"][0, 5].any()


class Judged:
    """Our battle beside MAgent2's own."""

    def __init__(self, size: int) -> None:
        self.ours = Battle(map_size=size, max_episode_steps=10_000)
        self.theirs = battle_v4.parallel_env(map_size=size, max_cycles=10_000)
        self.obs = self.ours.reset(seed=0)
        self.their_obs, _ = self.theirs.reset(seed=0)
        self.compare()
        self.step(0, STAY)  # MAgent2 drops the actions of the first step

    def compare(self) -> None:
        for group in self.ours.groups:
            for number, agent in enumerate(group.agents):
                alive = bool(self.obs[group.key("agent_mask")][0, number])
                assert alive == (agent in self.theirs.agents)
                if alive:
                    mine = self.obs[group.key("obs")][0, number] / 255
                    np.testing.assert_allclose(mine, self.their_obs[agent], atol=0.5 / 255 + 1e-5)

    def step(self, who: int, action: int) -> bool:
        """One agent acts, all others stay, so that no order matters; returns whether the battle goes on."""
        given = {group.key("action"): np.full((1, len(group)), STAY) for group in self.ours.groups}
        group, number = self.ours.groups[who >= self.ours.field.team], who % self.ours.field.team
        given[group.key("action")][0, number] = action
        asked = dict.fromkeys(self.theirs.agents, STAY)
        if group.agents[number] in asked:
            asked[group.agents[number]] = action
        before = {g.name: self.obs[g.key("agent_mask")][0].copy() for g in self.ours.groups}
        step = self.ours.step(given)
        self.their_obs, rewards, *_ = self.theirs.step(asked)
        for each in self.ours.groups:
            for place, agent in enumerate(each.agents):
                if before[each.name][place]:
                    assert step.row[each.key("reward")][0, place] == pytest.approx(rewards[agent], abs=1e-5)
        if step.ended[0]:
            assert not self.theirs.agents or len({name.split("_")[0] for name in self.theirs.agents}) == 1
            return False
        self.obs = step.obs
        self.compare()
        return True


@settings(max_examples=8, deadline=None)
@given(st.integers(12, 24), st.integers(0, 10_000))
def test_magent2_is_the_judge(size: int, seed: int) -> None:
    """Starts, pictures, moves, strikes, recovery, deaths and rewards are those of MAgent2's battle."""
    judged, random = Judged(size), np.random.default_rng(seed)
    field = judged.ours.field
    for _ in range(150):
        alive = np.flatnonzero(field.alive[0])
        who = int(random.choice(alive))
        foes = [u for u in alive if (u < field.team) != (who < field.team)]
        offset = field.pos[0, foes] - field.pos[0, who]
        near = offset[np.abs(offset).sum(axis=1).argmin()]
        if np.abs(near).max() <= 1:
            action = strike(*near.tolist())
        else:  # towards the nearest foe, now and then anywhere
            away = np.abs(MOVES - near).sum(axis=1)
            closer = np.where(away == 0, 99, away) + random.random(len(MOVES))
            action = int(closer.argmin()) if random.random() < 0.8 else int(random.integers(21))
        if not judged.step(who, action):
            break


def test_it_dies_out_against_the_judge() -> None:
    """One kill after the other, until a team is gone."""
    judged = Judged(12)
    field = judged.ours.field
    for _ in range(400):
        foes = np.flatnonzero(field.alive[0, field.team :]) + field.team
        offset = field.pos[0, foes[0]] - field.pos[0, 0]
        if np.abs(offset).max() <= 1:
            action = strike(*offset.tolist())
        else:
            away = np.abs(MOVES - offset).sum(axis=1)
            action = int(np.where(away == 0, 99, away).argmin())  # beside it, not where it stands
        if not judged.step(0, action):
            return
    raise AssertionError("nobody won")


def test_starts_are_the_judges() -> None:
    for size in (12, 15, 40, 45):
        env = battle_v4.parallel_env(map_size=size)
        env.reset(seed=0)
        for team, cells in zip(env.handles, starts(size), strict=True):
            np.testing.assert_array_equal(env.env.get_pos(team), cells)


def test_many_are_one_by_one() -> None:
    """Each environment's battle depends on its seed alone, and goes on from a snapshot."""
    random = np.random.default_rng(0)
    many = Battle(num_envs=3, map_size=14, max_episode_steps=30)
    seeds = [5, 6, 7]
    alone = [Battle(map_size=14, max_episode_steps=30) for _ in seeds]
    obs = many.reset(seed=seeds)
    for env, seed in zip(alone, seeds, strict=True):
        env.reset(seed=[seed])
    for t in range(70):
        action = {group.key("action"): random.integers(0, 21, (3, len(group))) for group in many.groups}
        if t == 40:
            again = Battle(num_envs=3, map_size=14, max_episode_steps=30)
            for key, value in again.restore(many.snapshot()).items():
                np.testing.assert_array_equal(value, obs[key])
            many = again
        step = many.step(action)
        obs = step.obs
        for number, env in enumerate(alone):
            own = env.step({key: value[number : number + 1] for key, value in action.items()})
            for key, value in own.row.items():
                np.testing.assert_array_equal(value[0], step.row[key][number])
    grid = many.field.grid
    assert sorted(grid[grid >= 0]) == sorted(np.nonzero(many.field.alive)[1])


def test_rows_go_to_a_memory() -> None:
    env = Battle(num_envs=2, map_size=12, max_episode_steps=9)
    memory = Memory(env.schema, capacity=60, lanes=2, seed=0)
    env.reset(seed=0)
    random = np.random.default_rng(0)
    for _ in range(20):
        memory.append(**env.step({g.key("action"): random.integers(0, 21, (2, len(g))) for g in env.groups}).row)
    batch = memory.sample(16)
    assert batch.red.next_obs.shape == (16, 2, 13, 13, 5)
    assert batch.truncated.any()


def test_refusals() -> None:
    with refused(OptionError, "map_size", got="11"):
        Battle(map_size=11)
    env = Battle(map_size=12)
    with refused(OptionError, "reset", got="step"):
        env.step({})
    env.reset(seed=0)
    with refused(OptionError, "red/action", got="21"):
        env.step({"red/action": [[21, 0]], "blue/action": [[0, 0]]})


def test_the_picture() -> None:
    env = Battle(map_size=12)
    env.reset(seed=0)
    assert env.render().shape == (490, 420, 3)
