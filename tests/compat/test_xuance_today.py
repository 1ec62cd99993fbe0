"""XuanCe's memories as they are today, beside the package itself: the same calls, the same numbers."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relive as rl
from refusals import refused
from relive.compat.xuance import memory_offline, memory_tools, memory_tools_marl
from xuance_real import imported, signatures

BOX = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
ACT = gymnasium.spaces.Discrete(5)
OURS = {"memory_tools": memory_tools, "memory_tools_marl": memory_tools_marl, "memory_offline": memory_offline}
MORE = {"seed", "truncations", "aux_info", "padded"}
"""What ours take beside."""


@pytest.mark.parametrize("module", OURS)
def test_signatures_are_those_of_the_package(module: str) -> None:
    found = signatures(module)
    assert len(found) > (4 if module == "memory_offline" else 40)
    for name, theirs in found.items():
        target: Any = OURS[module]
        for part in name.split("."):
            target = getattr(target, part)
        if isinstance(target, property) or (name.endswith("__init__") and theirs.vararg):
            continue  # passed on: those of the class above
        expected = [argument.arg for argument in theirs.args if argument.arg != "self"]
        beside = {"self", *MORE} - set(expected)
        ours = [p for p in inspect.signature(target).parameters.values() if p.name not in beside]
        plain = [p for p in ours if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert [p.name for p in plain] == expected, name
        assert any(p.kind is p.VAR_POSITIONAL for p in ours) >= bool(theirs.vararg), name
        assert any(p.kind is p.VAR_KEYWORD for p in ours) >= bool(theirs.kwarg), name
        defaults = dict(zip(reversed(expected), reversed(theirs.defaults), strict=False))
        for p in plain:
            written = ast.unparse(defaults[p.name]) if p.name in defaults else None
            if written != "np.float32":
                ours_default = None if p.default is p.empty else repr(p.default)
                assert ours_default == written, (name, p.name)


def step_of(random: np.random.Generator, n_envs: int, t: int) -> dict[str, Any]:
    """A step whose observations say where and when it was."""
    envs = np.arange(n_envs)
    obs = np.stack([envs, np.full(n_envs, t), random.normal(size=n_envs)], axis=1).astype(np.float32)
    return {
        "obs": obs,
        "acts": random.integers(0, 5, n_envs),
        "rews": random.normal(size=n_envs).astype(np.float32),
        "terminals": random.random(n_envs) < 0.2,
        "next_obs": obs + 1,
    }


def same(ours: Any, theirs: Any, name: str = "") -> None:
    """The same names in the same order, and the same numbers."""
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs), name
        for key in theirs:
            same(ours[key], theirs[key], f"{name}/{key}")
    elif theirs is None:
        assert ours is None, name
    else:
        found, expected = (np.asarray(each, np.float64) for each in (ours, theirs))
        np.testing.assert_allclose(found, expected, 2e-5, 2e-5, err_msg=name)
        assert np.shape(ours) == np.shape(theirs), name


@given(seed=st.integers(0, 1000), n_envs=st.integers(1, 3), size=st.integers(2, 7), steps=st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_replay_of_one_agent(seed: int, n_envs: int, size: int, steps: int) -> None:
    real, random = imported("memory_tools"), np.random.default_rng(seed)
    arguments = (BOX, ACT, None, n_envs, n_envs * size, 8)
    ours, theirs = memory_tools.DummyOffPolicyBuffer(*arguments), real.DummyOffPolicyBuffer(*arguments)
    for t in range(steps):
        step = step_of(random, n_envs, t)
        ours.store(**step)
        theirs.store(**step)
        assert (ours.ptr, ours.size, ours.full) == (theirs.ptr, theirs.size, theirs.full)
    for name in ("observations", "actions", "rewards", "terminals", "next_observations"):
        same(getattr(ours, name), getattr(theirs, name), name)
    for batch_size in (None, 5):
        ours_drawn, theirs_drawn = ours.sample(batch_size), theirs.sample(batch_size)
        assert list(ours_drawn) == list(theirs_drawn)
        assert {k: np.shape(v) for k, v in ours_drawn.items()} == {k: np.shape(v) for k, v in theirs_drawn.items()}
        env, t = ours_drawn["obs"][:, 0].astype(int), ours_drawn["obs"][:, 1].astype(int)
        assert (ours_drawn["rewards"] == ours.rewards[env, t % size]).all()


@pytest.mark.parametrize("use_gae", [True, False])
@given(seed=st.integers(0, 1000), n_envs=st.integers(1, 3), horizon=st.integers(2, 9))
@settings(max_examples=25, deadline=None)
def test_rollouts_of_one_agent(use_gae: bool, seed: int, n_envs: int, horizon: int) -> None:
    real, random = imported("memory_tools"), np.random.default_rng(seed)
    arguments = (BOX, ACT, {"old_logp": ()}, n_envs, horizon, use_gae, True, 0.9, 0.8)
    ours, theirs = memory_tools.DummyOnPolicyBuffer(*arguments), real.DummyOnPolicyBuffer(*arguments)
    for t in range(horizon):
        step = step_of(random, n_envs, t)
        del step["next_obs"]
        value = random.normal(size=n_envs).astype(np.float32)
        step |= {"value": value, "aux_info": {"old_logp": value}}
        if not use_gae:
            step["terminals"][:] = False  # theirs looks at no ends then
        ours.store(**step)
        theirs.store(**step)
        for i in np.flatnonzero(step["terminals"]):
            ours.finish_path(0.0, i)
            theirs.finish_path(0.0, i)
    for i in range(n_envs):
        last = float(random.normal())
        if not step["terminals"][i]:  # theirs begins again at 0 when it is full
            ours.finish_path(last, i)
            theirs.finish_path(last, i)
    indexes = random.permutation(n_envs * horizon)
    found, expected = ours.sample(indexes), theirs.sample(indexes)
    if not use_gae:  # theirs: of one step, not of all that follow
        found.pop("advantages"), expected.pop("advantages")
    same(found, expected)


def agents_step(random: np.random.Generator, n_envs: int, t: int, keys: list[str], sizes: dict[str, int]) -> Any:
    """A step of several agents; the first two numbers that one sees say where and when it is."""
    envs = np.arange(n_envs)

    def seen(key: str) -> Any:
        rest = random.normal(size=(n_envs, sizes[key] - 2))
        return np.concatenate([envs[:, None], np.full((n_envs, 1), t), rest], axis=1).astype(np.float32)

    def number() -> Any:
        return {key: random.normal(size=n_envs).astype(np.float32) for key in keys}

    done = random.random(n_envs) < 0.2
    return {
        "obs": {key: seen(key) for key in keys},
        "actions": {key: random.integers(0, 5, n_envs) for key in keys},
        "obs_next": {key: seen(key) for key in keys},
        "rewards": number(),
        "values": number(),
        "log_pi_old": number(),
        "gate_log_pi_old": number(),
        "terminals": dict.fromkeys(keys, done),
        "agent_mask": {key: np.ones(n_envs, bool) for key in keys},
        "state": random.normal(size=(n_envs, 4)).astype(np.float32),
        "state_next": random.normal(size=(n_envs, 4)).astype(np.float32),
        "avail_actions": {key: random.random((n_envs, 5)) < 0.5 for key in keys},
        "avail_actions_next": {key: random.random((n_envs, 5)) < 0.5 for key in keys},
        "actions_mean": {key: random.random((n_envs, 5)).astype(np.float32) for key in keys},
        "actions_mean_next": {key: random.random((n_envs, 5)).astype(np.float32) for key in keys},
    }


class Twice:
    """A normaliser of values, as theirs are."""

    def denormalize(self, values: Any) -> Any:
        return np.asarray(values) * 2 + 1


def spaces_of(keys: list[str], sizes: dict[str, int]) -> dict[str, Any]:
    return {
        "agent_keys": keys,
        "state_space": gymnasium.spaces.Box(-9, 9, (4,), np.float32),
        "obs_space": {key: gymnasium.spaces.Box(-9, 9, (sizes[key],), np.float32) for key in keys},
        "act_space": dict.fromkeys(keys, ACT),
        "use_actions_mask": True,
        "avail_actions_shape": dict.fromkeys(keys, (5,)),
        "n_actions_max": 5,
    }


KEYS = ["agent_0", "agent_1", "agent_2"]
SIZES = [dict.fromkeys(KEYS, 3), {"agent_0": 3, "agent_1": 5, "agent_2": 3}]
ON = ["MARL_OnPolicyBuffer", "MeanField_OnPolicyBuffer"]
OFF = ["MARL_OffPolicyBuffer", "MeanField_OffPolicyBuffer"]
ON_RNN = ["MARL_OnPolicyBuffer_RNN", "MeanField_OnPolicyBuffer_RNN", "IC3Net_OnPolicyBuffer_RNN"]
OFF_RNN = ["MARL_OffPolicyBuffer_RNN", "MeanField_OffPolicyBuffer_RNN"]


def only(buffer: Any, step: Any, *more: str) -> Any:
    """What of a step a buffer of theirs takes."""
    return {key: value for key, value in step.items() if key in (*buffer.data_keys, *more)}


def first_step(length: int, width: int = 1) -> Any:
    """Every agent's value of what was seen last."""
    return {key: np.float32(0.1 * length + i) for i, key in enumerate(KEYS[: 3 * width])}


@pytest.mark.parametrize("kind", ON)
@pytest.mark.parametrize("sizes", SIZES, ids=["alike", "different"])
@pytest.mark.parametrize("how", ["gae", "gae normalised", "plain"])
@given(seed=st.integers(0, 1000), n_envs=st.integers(1, 3), size=st.integers(2, 8))
@settings(max_examples=10, deadline=None)
def test_rollouts_of_many_agents(kind: str, sizes: Any, how: str, seed: int, n_envs: int, size: int) -> None:
    random = np.random.default_rng(seed)
    options = spaces_of(KEYS, sizes) | {"n_envs": n_envs, "buffer_size": n_envs * size, "use_gae": how != "plain"}
    options |= {"use_advnorm": True, "gamma": 0.9, "gae_lam": 0.8}
    ours = getattr(memory_tools_marl, kind)(**options)
    theirs = getattr(imported("memory_tools_marl"), kind)(**options)
    normalizer = {KEYS[0]: Twice()} if how == "gae normalised" else None
    for _ in range(2):
        for t in range(size):
            step = agents_step(random, n_envs, t, KEYS, sizes)
            ours.store(**step)
            theirs.store(**only(theirs, step))
            for i in range(n_envs) if theirs.full else np.flatnonzero(step["terminals"]["agent_0"]):
                last = first_step(t)
                ours.finish_path(i_env=i, value_next=last, value_normalizer=normalizer)
                theirs.finish_path(i_env=i, value_next=last, value_normalizer=normalizer)
        assert ours.full
        same(ours.data, theirs.data)
        indexes = random.permutation(n_envs * size)[: max(1, size - 1)]
        same(ours.sample(indexes), theirs.sample(indexes))
        ours.clear()
        theirs.clear()
        ours.finish_path(0, first_step(0))  # nothing to do


@pytest.mark.parametrize("kind", OFF)
@pytest.mark.parametrize("sizes", SIZES, ids=["alike", "different"])
@given(seed=st.integers(0, 1000), n_envs=st.integers(1, 3), size=st.integers(2, 6), steps=st.integers(1, 15))
@settings(max_examples=10, deadline=None)
def test_replay_of_many_agents(kind: str, sizes: Any, seed: int, n_envs: int, size: int, steps: int) -> None:
    random = np.random.default_rng(seed)
    options = spaces_of(KEYS, sizes) | {"n_envs": n_envs, "buffer_size": n_envs * size, "batch_size": 6}
    ours = getattr(memory_tools_marl, kind)(**options)
    theirs = getattr(imported("memory_tools_marl"), kind)(**options)
    for t in range(steps):
        step = agents_step(random, n_envs, t, KEYS, sizes)
        ours.store(**step)
        theirs.store(**only(theirs, step))
    same(ours.data, theirs.data)
    drawn, expected = ours.sample(), theirs.sample()
    assert list(drawn) == list(expected)
    for key in KEYS:
        env, t = drawn["obs"][key][:, 0].astype(int), drawn["obs"][key][:, 1].astype(int)
        for name in drawn:
            if isinstance(drawn[name], dict):
                assert drawn[name][key].shape == expected[name][key].shape
                assert (drawn[name][key] == ours.data[name][key][env, t % size]).all()


@pytest.mark.parametrize("kind", [*ON_RNN, *OFF_RNN])
@pytest.mark.parametrize("sizes", SIZES, ids=["alike", "different"])
@given(seed=st.integers(0, 1000), n_envs=st.integers(1, 3), episodes=st.integers(2, 9))
@settings(max_examples=10, deadline=None)
def test_episodes_of_many_agents(kind: str, sizes: Any, seed: int, n_envs: int, episodes: int) -> None:
    random, longest = np.random.default_rng(seed), 6
    on_policy, size = kind in ON_RNN, 2 * n_envs
    options = spaces_of(KEYS, sizes) | {"n_envs": n_envs, "buffer_size": size, "max_episode_steps": longest}
    options |= {"use_gae": True, "gamma": 0.9, "gae_lam": 0.8} if on_policy else {"batch_size": 4}
    ours = getattr(memory_tools_marl, kind)(**options)
    theirs = getattr(imported("memory_tools_marl"), kind)(**options)
    times, finished = np.zeros(n_envs, int), 0
    while finished < episodes:
        step = agents_step(random, n_envs, 0, KEYS, sizes)
        ours.store(**step, episode_steps=times)
        theirs.store(**only(theirs, step, "episode_steps"), episode_steps=times)
        times += 1
        for i in np.flatnonzero(step["terminals"]["agent_0"] | (times == longest)):
            if on_policy:
                last = {"i_step": int(times[i]), "value_next": first_step(finished)}
            else:
                last = {"episode_step": int(times[i]), "state": step["state_next"][i]}
                for name, given_as in (("obs", "obs_next"), ("avail_actions",) * 2, ("actions_mean",) * 2):
                    last[name] = {key: step[given_as][key][i] for key in KEYS}
            ours.finish_path(i, **last)
            theirs.finish_path(i, **last)
            times[i] = 0
            finished += 1
    assert (ours.ptr, ours.size) == (theirs.ptr, theirs.size)
    blank(theirs)
    same(dict(ours.data), theirs.data)
    if not on_policy or theirs.full:
        places = random.permutation(size)
        drawn, expected = (each.sample(places) if on_policy else each.sample() for each in (ours, theirs))
        assert list(drawn) == list(expected)
        if on_policy:
            same(drawn, expected)
        else:
            assert drawn["obs"]["agent_0"].shape == expected["obs"]["agent_0"].shape == (4, longest + 1, 3)
            assert drawn["filled"].shape == (4, longest)
    with pytest.raises(ValueError, match="read-only"):
        ours.data["filled"][0] = True


def blank(theirs: Any) -> None:
    """Zero what an older episode left past the end of a shorter one."""
    filled = theirs.data["filled"]
    for name, value in theirs.data.items():
        for array in value.values() if isinstance(value, dict) else [value]:
            if name != "filled":
                through = array.shape[1] - filled.shape[1]
                for episode, length in enumerate(filled.sum(axis=1)):
                    array[episode, length + (through if length else 0) :] = 0


def test_a_state_of_one_environment_is_each_ones() -> None:
    """As XuanCe's QMIX gives it, when one of several environments was reset."""
    options = spaces_of(KEYS, SIZES[0]) | {"n_envs": 2, "buffer_size": 4, "batch_size": 1, "max_episode_steps": 3}
    buffer = memory_tools_marl.MARL_OffPolicyBuffer_RNN(**options)
    step = agents_step(np.random.default_rng(0), 2, 0, KEYS, SIZES[0])
    step["state"] = step["state"][0]
    buffer.store(**step, episode_steps=np.zeros(2, int))
    assert (buffer.episode_data["state"][:, 0] == step["state"]).all()


@pytest.mark.parametrize(
    ("change", "about"),
    [
        ({"rewards": None}, "rewards"),
        ({"obs": {"agent_0": np.zeros((2, 3))}}, "obs/agent_1"),
        ({"rewards": dict.fromkeys(KEYS, np.zeros(3))}, "rewards/agent_0"),
        ({"actions": dict.fromkeys(KEYS, np.array([0, 9]))}, "actions/agent_0"),
        ({"actions": dict.fromkeys(KEYS, np.array([0, 0.5]))}, "actions"),
        ({"terminals": dict.fromkeys(KEYS, np.full(2, 0.5))}, "terminals/agent_0"),
    ],
)
@pytest.mark.parametrize("kind", [*ON, *OFF, *ON_RNN, *OFF_RNN])
def test_a_wrong_step_is_refused_whole(kind: str, change: Any, about: str) -> None:
    options = spaces_of(KEYS, SIZES[0]) | {"n_envs": 2, "buffer_size": 8, "max_episode_steps": 4}
    buffer = getattr(memory_tools_marl, kind)(**options)
    step = agents_step(np.random.default_rng(0), 2, 0, KEYS, SIZES[0]) | {"episode_steps": 0}
    with pytest.raises(rl.errors.StepError) as caught:
        buffer.store(**step | change)
    assert caught.value.problems[0].name == about
    assert buffer.size == 0
    assert all(not np.any(array) for array in buffer.data["obs"].values())
    buffer.store(**step)


@pytest.mark.parametrize("kind", [*ON, *OFF, *ON_RNN, *OFF_RNN])
def test_saved_and_loaded(kind: str, tmp_path: Any) -> None:
    options = spaces_of(KEYS, SIZES[1]) | {"n_envs": 2, "buffer_size": 8, "max_episode_steps": 4, "seed": 3}
    options |= {"gamma": 0.9, "gae_lam": 0.9, "use_gae": True} if "On" in kind else {"batch_size": 5}
    buffer, random = getattr(memory_tools_marl, kind)(**options), np.random.default_rng(0)
    for t in range(8):
        step = agents_step(random, 2, t, KEYS, SIZES[1])
        buffer.store(**step, episode_steps=np.full(2, t % 4))
        for i in range(2) if "RNN" in kind and t % 4 == 3 else ():
            seen = {name: {k: step[name][k][i] for k in KEYS} for name in ("obs", "avail_actions", "actions_mean")}
            last = {"i_step": 4, "value_next": first_step(0)} if "On" in kind else {"episode_step": 4, **seen}
            buffer.finish_path(i, **last, **({} if "On" in kind else {"state": step["state"][i]}))
    buffer.save(tmp_path)
    other = getattr(memory_tools_marl, kind)(**options)
    other.load(tmp_path)
    same(dict(other.data), dict(buffer.data))
    assert (other.ptr, other.size) == (buffer.ptr, buffer.size)
    if "Off" in kind:
        same(other.sample(), buffer.sample())
    stranger = getattr(memory_tools_marl, kind)(**options | {"agent_keys": KEYS[::-1]})
    with refused(rl.errors.OptionError, "folder"):
        stranger.load(tmp_path)
