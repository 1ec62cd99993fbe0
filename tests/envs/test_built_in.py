"""What every built-in environment does alike: seeds, resets and snapshots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refusals import refused
from relive import envs
from relive.envs.built_in import BuiltIn
from relive.errors import OptionError

NAMES = ["bitflip", "battle", "marines_3v3", "simple_spread"]


def made(name: str) -> Any:
    env = envs.make(name, 3)
    assert isinstance(env, BuiltIn)
    return env


def played(env: Any, steps: int) -> list[dict[str, Any]]:
    """What is seen and earned, with actions by chance that is always the same."""
    random, found, seen = np.random.default_rng(4), [], env.look()
    for _ in range(steps):
        action = {}
        for group in env.groups:
            liked = random.random((env.num_envs, len(group), int(group.action_space.n)))
            action[group.key("action")] = (liked * seen.get(group.key("avail_actions"), 1)).argmax(axis=-1)
        step = env.step(action)
        seen = step.obs
        found += [dict(step.obs), dict(step.row)]
    return found


def same(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    return all(np.array_equal(a[key], b[key]) for a, b in zip(one, other, strict=True) for key in {*a, *b})


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_is_one_history(name: str) -> None:
    env, other = made(name), made(name)
    env.reset(seed=7)
    other.reset(seed=8)
    before = played(env, 40)
    assert not same(before, played(other, 40))
    other.reset(seed=7)
    assert same(before, played(other, 40))
    env.reset()  # goes on with its dice
    other.reset()
    assert same(played(env, 5), played(other, 5))


@pytest.mark.parametrize("name", NAMES)
def test_a_snapshot_is_gone_back_to(name: str) -> None:
    env, other = made(name), made(name)
    with refused(OptionError, "reset", got="snapshot"):
        env.snapshot()
    env.reset(seed=1)
    played(env, 30)
    seen, kept = env.look(), env.snapshot()
    after = played(env, 30)
    assert same([seen], [other.restore(kept)])  # which was never reset
    assert same(after, played(other, 30))


@pytest.mark.parametrize("name", NAMES)
def test_what_does_not_fit_changes_nothing(name: str) -> None:
    env = made(name)
    env.reset(seed=1)
    kept = env.snapshot()
    played(env, 3)
    now = env.snapshot()
    for key, value in kept.items():
        for bad in ({**kept, key: value[:-1]}, {other: kept[other] for other in kept if other != key}):
            with refused(OptionError, f"state[{key!r}]"):
                env.restore(bad)
        if value.dtype.kind == "f":
            with refused(OptionError, f"state[{key!r}]", got="NaN or infinity"):
                env.restore({**kept, key: np.full_like(value, np.nan)})
    assert same([now], [env.snapshot()])
