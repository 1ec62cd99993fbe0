"""The marine skirmish beside its oracle, and what must hold in every battle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relive as rl
from marines_plain import Plain, Unit
from refusals import refused
from relive import envs
from relive.envs.marines import Marines, players

SIZES = [(1, 1), (3, 3), (4, 4), (5, 6), (8, 3)]


def plain_of(env: Marines, index: int) -> Plain:
    battle = env.battle
    units = [
        Unit(*battle.pos[:, u, index].tolist(), float(battle.hit_points[u, index]), float(battle.cooldown[u, index]))
        for u in range(battle.units)
    ]
    for enemy, prey in zip(units[battle.allies :], battle.prey[:, index], strict=True):
        enemy.prey = int(prey)
    last = env.last[:, index]
    return Plain(units[: battle.allies], units[battle.allies :], [] if (last < 0).all() else last.tolist())


def mixed(seen: dict[str, np.ndarray], generator: np.random.Generator) -> np.ndarray:
    """Some of everything: chance, the nearest, all together; by environment."""
    kinds = generator.integers(0, 3, len(seen["obs"]))[:, None]
    choices = (players.random(seen, generator), players.nearest(seen), players.focus(seen))
    return np.choose(kinds, choices)


def check_views(env: Marines, seen: dict[str, np.ndarray], index: int, plain: Plain) -> None:
    for i in range(env.battle.allies):
        np.testing.assert_array_equal(seen["avail_actions"][index, i], plain.allowed(i))
        np.testing.assert_allclose(seen["obs"][index, i], plain.obs(i), atol=1e-6)
    np.testing.assert_allclose(seen["state"][index], plain.state(), atol=1e-6)


@pytest.mark.parametrize(("allies", "enemies"), SIZES)
def test_same_as_the_oracle(allies: int, enemies: int) -> None:
    env = Marines(allies, enemies, 4)
    generator = np.random.default_rng(allies)
    jitters: list[np.ndarray] = []
    seen = env.reset(seed=1)
    draw = env._dice.uniform  # type: ignore[union-attr]
    env._dice.uniform = lambda rows, count: jitters.append(draw(rows, count)) or jitters[-1]  # type: ignore[union-attr, method-assign, func-returns-value]
    ends = 0
    for _ in range(150):
        plains = [plain_of(env, index) for index in range(4)]
        for index, plain in enumerate(plains):
            check_views(env, seen, index, plain)
        action = mixed(seen, generator)
        jitters.clear()
        step = env.step(action)
        after = {key.removeprefix("final_"): value for key, value in step.row.items() if key.startswith("final_")}
        for index, plain in enumerate(plains):
            before = [unit.hp for unit in plain.enemies]
            plain.step(action[index].tolist(), jitters[0][:, index].tolist())
            check_views(env, after if step.ended[index] else step.obs, index, plain)
            lost = [b - unit.hp for b, unit in zip(before, plain.enemies, strict=True)]
            killed = sum(b > 0 and not unit.alive for b, unit in zip(before, plain.enemies, strict=True))
            ours, theirs = any(u.alive for u in plain.allies), any(u.alive for u in plain.enemies)
            won = ours and not theirs
            most = 10 * enemies + 200 + 45 * enemies
            np.testing.assert_allclose(
                step.row["reward"][index], (sum(lost) + 10 * killed + 200 * won) / (most / 20), rtol=1e-6
            )
            assert step.terminated[index] == (not ours or not theirs)
            assert step.info["battle_won"][index] == won
            assert step.info["dead_allies"][index] == sum(not u.alive for u in plain.allies)
            assert step.info["dead_enemies"][index] == sum(not u.alive for u in plain.enemies)
            if not step.ended[index]:
                np.testing.assert_allclose(env.battle.pos[0, :, index], [u.x for u in plain.units], atol=1e-9)
                np.testing.assert_allclose(env.battle.pos[1, :, index], [u.y for u in plain.units], atol=1e-9)
                np.testing.assert_array_equal(env.battle.hit_points[:, index], [u.hp for u in plain.units])
                np.testing.assert_allclose(env.battle.cooldown[:, index], [u.cooldown for u in plain.units], atol=1e-9)
                np.testing.assert_array_equal(env.battle.prey[:, index], [u.prey for u in plain.enemies])
        ends += int(step.ended.sum())
        seen = step.obs
    assert ends > 8


def test_sizes_of_the_four_marine_map() -> None:
    for name in ("marines_4v4", "MarineMicro_MvsM_4"):
        env = envs.make(name, num_envs=2)
        seen = env.reset(seed=0)
        assert seen["obs"].shape == (2, 4, 40)
        assert seen["state"].shape == (2, 68)
        assert seen["avail_actions"].shape == (2, 4, 10)
        assert env.max_episode_steps == 60
    env = envs.make("marines_5v6")
    assert env.groups[0].obs_space.shape == (4 + 30 + 20 + 1,)
    assert env.reset()["state"].shape == (1, 20 + 18 + 60)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(SIZES), st.integers(0, 2**40), st.sampled_from(["positive", "losses", "sparse"]))
def test_what_holds_in_every_battle(sizes: tuple[int, int], seed: int, reward: Any) -> None:
    allies, enemies = sizes
    env = Marines(allies, enemies, 8, reward=reward, max_episode_steps=30)
    generator = np.random.default_rng(seed)
    seen = env.reset(seed=seed)
    returns = np.zeros(8)
    for _ in range(70):
        assert seen["avail_actions"].any(axis=2).all()
        for key, space in (("obs", env.groups[0].obs_space), ("state", env.state_space)):
            low, high = space.low, space.high  # type: ignore[union-attr]
            assert (seen[key] >= low).all()
            assert (seen[key] <= high).all()
        step = env.step(mixed(seen, generator))
        returns += step.row["reward"]
        hit_points = env.battle.hit_points
        assert ((hit_points >= 0) & (hit_points <= 45)).all()
        assert ((env.battle.pos[0] >= 0) & (env.battle.pos[0] < 32)).all()
        assert ((env.battle.pos[1] >= 8) & (env.battle.pos[1] < 24)).all()
        if reward == "positive":
            assert (step.row["reward"] >= 0).all()
            assert (returns <= 20 + 1e-5).all()
            np.testing.assert_allclose(returns[step.info["battle_won"]], 20, rtol=1e-6)
            lost = step.ended & ~step.info["battle_won"]
            assert (returns[lost] <= 20 * (55 * enemies) / (55 * enemies + 200) + 1e-5).all()
        elif reward == "sparse":
            assert np.isin(step.row["reward"], [-1, 0, 1]).all()
            np.testing.assert_array_equal(step.row["reward"] == 1, step.info["battle_won"])
        else:
            assert (returns <= 20 + 1e-5).all()
        assert not (step.truncated & step.terminated).any()
        returns[step.ended] = 0
        seen = step.obs


def test_losses_are_counted_by_half() -> None:
    plain, less = Marines(3, 3, 4), Marines(3, 3, 4, reward="losses")
    seen = plain.reset(seed=3)
    less.reset(seed=3)
    for _ in range(40):
        before = plain.battle.hit_points[:3].copy()
        action = players.nearest(seen)
        one, two = plain.step(action), less.step(action)
        if one.ended.any():
            break
        after = plain.battle.hit_points[:3]
        lost = (before - after).sum(axis=0) + 10 * ((before > 0) & (after == 0)).sum(axis=0)
        np.testing.assert_allclose(two.row["reward"], one.row["reward"] - 0.5 * lost * 20 / 365, atol=1e-6)
        seen = one.obs
    assert lost.any()


@pytest.mark.parametrize(("allies", "enemies"), [(4, 4), (8, 8), (11, 3), (50, 50)])
def test_units_start_apart_and_inside(allies: int, enemies: int) -> None:
    env = Marines(allies, enemies, 32)
    for seed in range(3):
        env.reset(seed=seed)
        assert (env.battle.distance + 10 * np.eye(allies + enemies)[:, :, None] > 0.75).all()
        assert (np.abs(env.battle.pos[0] - 16) < 16).all()
        assert (np.abs(env.battle.pos[1] - 16) < 8).all()
    assert np.allclose(env.battle.pos[:, :allies].mean(axis=1), [[9], [16]], atol=2.2)
    assert np.allclose(env.battle.pos[:, allies:].mean(axis=1), [[23], [16]], atol=2.2)


@pytest.mark.parametrize("size", [1, 4, 6, 8, 12, 50])
def test_both_sides_start_alike(size: int) -> None:
    x, y = Marines(size, size).battle._start
    np.testing.assert_allclose(x[:size] - 9, 23 - x[size:])
    np.testing.assert_allclose(y[:size], y[size:])


def test_units_part() -> None:
    """Pressed together they overlap a little for a moment, and part when let alone."""
    env = Marines(8, 8, 16)
    seen = env.reset(seed=0)
    closest = []
    for _ in range(120):
        seen = env.step(players.nearest(seen)).obs
        alive = env.battle.hit_points > 0
        both = alive & alive[:, None] & ~np.eye(16, dtype=bool)[:, :, None]
        closest.append(env.battle.distance[both])
    away = np.concatenate(closest)
    assert away.min() > 0.3
    assert np.quantile(away, 0.001) > 0.6
    env = Marines(2, 1, 1)
    env.reset(seed=0)
    env.battle.pos[:, :, 0] = [[10, 12, 31], [12, 12, 23]]
    env.look()
    for _ in range(8):  # head on
        env.step(np.array([[4, 5]]))
    np.testing.assert_allclose(env.battle.distance[0, 1], 0.75)
    env = Marines(8, 1, 4)
    env.reset(seed=0)
    env.battle.pos[:, 8:] = [[[32.0]], [[8.0]]]  # the enemy far away
    env.battle.pos[:, :8] = 16 + 0.1 * np.random.default_rng(0).random((2, 8, 4))
    env.battle.pos[:, :8, 0] = 16  # all in one place
    env.look()
    for _ in range(6):
        env.step(np.ones((4, 8), int))
    assert env.battle.distance[:8, :8][~np.eye(8, dtype=bool)].min() > 0.7


def test_a_new_battle_has_no_last_actions() -> None:
    env = Marines(3, 3, 2, max_episode_steps=2)
    env.reset(seed=0)
    assert env.step(np.ones((2, 3), int)).obs["state"][:, 21:].sum() == 6
    step = env.step(np.ones((2, 3), int))
    assert step.truncated.all()
    assert step.row["final_state"][:, 21:].sum() == 6
    assert not step.obs["state"][:, 21:].any()


def test_rate_of_fire() -> None:
    """One shot per 13.8 loops, varied by -1 to 2: 14.3 on average."""
    env = Marines(1, 1, 64)
    env.reset(seed=0)
    battle = env.battle
    shots = 0
    for _ in range(200):
        battle.hit_points[:] = 45
        battle.pos[:, 0] = np.array([16.0, 16.0])[:, None]
        battle.pos[:, 1] = np.array([19.0, 16.0])[:, None]
        env.time[:] = 0
        seen = env.look()
        env.step(players.nearest(seen))
        shots += int((battle.shot[0] >= 0).sum())
    loops = 200 * 8 * 64 / shots
    spread = 3 / np.sqrt(12) / np.sqrt(shots)  # of the mean of a uniform reload; six of them is a false alarm in 1e9
    assert abs(loops - 14.3) < 6 * spread + 14.3 / 110  # a first shot at once among 110 of each


def test_players() -> None:
    """Chance almost never wins; shooting together beats shooting at the nearest. The nearest is a fair match."""
    won: dict[str, float] = {}
    for name in ("random", "nearest", "focus"):
        env = Marines(4, 4, 400)
        generator = np.random.default_rng(0)
        seen = env.reset(seed=11)
        first = np.full(400, -1.0)
        while (first < 0).any():
            step = env.step(players.random(seen, generator) if name == "random" else getattr(players, name)(seen))
            fresh = step.ended & (first < 0)
            first[fresh] = step.info["battle_won"][fresh]
            seen = step.obs
        won[name] = float(first.mean())
    assert won["random"] < 0.01
    assert 0.25 < won["nearest"] < 0.6
    assert won["focus"] > won["nearest"] + 0.15


def test_enemies_walk_until_someone_is_in_reach() -> None:
    env = Marines(2, 2, 8)
    env.reset(seed=0)
    start = env.battle.pos.copy()
    for _ in range(3):
        step = env.step(np.ones((8, 2), int))
    assert (env.battle.pos[0, 2:] < start[0, 2:] - 3).all()
    np.testing.assert_allclose(env.battle.pos[:, :2], start[:, :2], atol=0.75)
    assert (env.battle.prey == -1).all()
    for _ in range(12):
        step = env.step(np.where(step.obs["avail_actions"][..., 1], 1, 0))
    assert (env.battle.prey >= 0).any(axis=0).all()
    assert step.obs["obs"].shape == (8, 2, 4 + 10 + 5 + 1)


@pytest.mark.parametrize("size", ["3v3", "5v6"])
def test_an_environment_plays_the_same_whatever_is_beside_it(size: str) -> None:
    def play(count: int, **reset: Any) -> list[Any]:
        env = envs.make(f"marines_{size}", num_envs=count, max_episode_steps=25)
        seen = env.reset(**reset)
        rows = []
        for t in range(60):
            which = players.nearest if t % 3 else players.focus
            step = env.step(which(seen))
            rows.append({**step.row, **{f"seen {key}": value for key, value in step.obs.items()}})
            seen = step.obs
        return rows

    def part(rows: dict[str, Any], which: Any) -> dict[str, Any]:
        return {key: value[which] for key, value in rows.items() if "final" not in key}

    many, again = play(9, seed=4), play(9, seed=4)
    few = play(4, seed=4)
    order = np.array([8, 2, 2, 5])
    turned = play(4, seed=np.array(envs.seeds(4, 9))[order].tolist())
    alone = play(1, seed=envs.seeds(4, 4)[3:])
    for t in range(60):
        for one, two in (
            (part(many[t], slice(None)), part(again[t], slice(None))),
            (part(many[t], slice(4)), part(few[t], slice(None))),
            (part(many[t], order), part(turned[t], slice(None))),
            (part(many[t], slice(3, 4)), part(alone[t], slice(None))),
        ):
            for key, value in one.items():
                np.testing.assert_array_equal(value, two[key], err_msg=key)


def test_a_snapshot_goes_on_bit_for_bit() -> None:
    env, other = Marines(4, 4, 5), Marines(4, 4, 5)
    seen = env.reset(seed=9)
    for _ in range(15):
        seen = env.step(players.nearest(seen)).obs
    again = other.restore(env.snapshot())
    for _ in range(40):
        one, two = env.step(players.nearest(seen)), other.step(players.nearest(again))
        for key, value in one.row.items():
            np.testing.assert_array_equal(value, two.row[key])
        seen, again = one.obs, two.obs


def test_the_memory_takes_it_and_what_is_given_out_stays() -> None:
    env = envs.make("marines_4v4", num_envs=6)
    memory = rl.Memory(env.schema, capacity=3000, lanes=6, window=rl.Episodes(length=60), seed=0)
    seen = env.reset(seed=0)
    held = []
    returns: dict[tuple[int, int], float] = {}
    episode = np.zeros(6, int)
    for _ in range(150):
        step = env.step(players.focus(seen))
        held += [(value, value.copy()) for value in (*step.obs.values(), *step.row.values())]
        memory.append(**step.row)
        for lane in range(6):
            key = (lane, int(episode[lane]))
            returns[key] = returns.get(key, 0.0) + float(step.row["reward"][lane])
        episode += step.ended
        seen = step.obs
    for value, copy in held:
        np.testing.assert_array_equal(value, copy)
    batch = memory.sample(32)
    totals = (batch.reward * batch.mask).sum(axis=1)
    known = np.array([value for key, value in returns.items() if key[1] < episode[key[0]]])
    assert all(np.isclose(known, total, atol=1e-3).any() for total in totals)
    assert batch.avail_actions.dtype == bool
    last = batch.obs[np.arange(32), batch.lengths]
    assert (
        last.any(axis=2) == batch.avail_actions[np.arange(32), batch.lengths][:, :, 1]
    ).all()  # the dead see nothing


@pytest.mark.parametrize(
    ("action", "about"),
    [
        (np.zeros((2, 3), int), "action[0, 0]"),
        (np.full((2, 3), 6), "action[0, 0]"),
        (np.full((2, 3), 9), "action"),
        (np.full((2, 3), -1), "action"),
        (np.ones((2, 3)), "action"),
        (np.ones((2, 4), int), "action"),
    ],
)
def test_actions_that_cannot_be(action: Any, about: str) -> None:
    env = Marines(3, 3, 2)
    with refused(rl.errors.OptionError, "reset", got="step"):
        env.step(action)
    seen = env.reset(seed=0)
    seen["avail_actions"][:] = True  # what is handed out changes nothing
    before = env.snapshot()
    with refused(rl.errors.OptionError, about):
        env.step(action)
    for key, value in env.snapshot().items():
        np.testing.assert_array_equal(value, before[key])


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"allies": 0}, "allies"),
        ({"enemies": 51}, "allies and enemies"),
        ({"reward": "dense"}, "reward"),
        ({"max_episode_steps": 0}, "max_episode_steps"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], about: str) -> None:
    with refused(rl.errors.OptionError, about):
        Marines(**options)


def test_without_state() -> None:
    env = envs.make("marines_3v3", state=False)
    assert "state" not in env.reset()
    assert env.state_space is None
