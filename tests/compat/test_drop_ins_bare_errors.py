"""Whatever a drop-in's class or method is called with, what comes back is a result or an error of ours."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hostile_values import HOSTILE  # noqa: E402
from relive.compat import maddpg, pymarl  # noqa: E402
from relive.compat.saving import Saveable  # noqa: E402
from relive.compat.xuance import memory_tools, memory_tools_marl  # noqa: E402
from relive.compat.xuance.v1_1 import memory_tools as v1_tools  # noqa: E402
from relive.compat.xuance.v1_1 import memory_tools_marl as v1_marl  # noqa: E402
from relive.errors import ReliveError  # noqa: E402

BOX, TWO = gym.spaces.Box(-1, 1, (3,)), gym.spaces.Discrete(2)
FLAGS = {"use_gae": True, "use_advnorm": True, "gamma": 0.9, "gae_lam": 0.9, "seed": 0}
SIZES = {"n_envs": 2, "n_size": 4, "buffer_size": 8, "horizon_size": 4, "batch_size": 2, "max_episode_steps": 5}
ONE = {
    "observation_space": BOX,
    "action_space": TWO,
    "auxiliary_shape": None,
    "capacity": 4,
    "alpha": 0.6,
    "padded": True,
}
ONE |= {"shape": (3,), "x": [1.0], "index": 0, "ptr": 0, "memory": np.zeros((2, 4)), "data": np.zeros(2)}
ONE |= {"episode_length": 5, "lookup_length": 3, **SIZES, **FLAGS}
MANY = {"agent_keys": ["a", "b"], "state_space": BOX, **SIZES, **FLAGS}
MANY |= {"obs_space": {"a": BOX, "b": BOX}, "act_space": {"a": TWO, "b": TWO}, "n_actions_max": 2}
V1_MANY = {"n_agents": 2, "state_space": BOX, "obs_space": BOX, "act_space": TWO, "rew_space": (1,), **SIZES, **FLAGS}
V1_MANY |= {
    "done_space": (2,),
    "prob_shape": (2,),
    "prob_space": (2,),
    "dim_act": 2,
    "max_episode_length": 5,
    "td_lambda": 0.9,
    "avail_actions_shape": (2,),
}
PYMARL = {"scheme": {"obs": {"vshape": 2, "group": "agents"}}, "groups": {"agents": 2}, "data": None, "device": "cpu"}
PYMARL |= {"batch_size": 1, "buffer_size": 4, "max_seq_length": 6, "preprocess": None, "seed": 0, "out_dim": 2}
PYMARL |= {"alpha": 0.6, "beta": 0.4, "t_max": 100, "t": 1, "bs": slice(None), "ts": slice(None), "mark_filled": True}
ARGS = SimpleNamespace(
    buffer_size=10, n_agents=2, obs_shape=[3, 3], action_shape=[2, 2], high_action=1.0, lr_actor=1e-3, lr_critic=1e-3,
    save_dir="models", scenario_name="simple", gamma=0.9, tau=0.01, save_rate=1,
)  # fmt: skip
LISTS = {"args": ARGS, "agent_id": 0, "s_dim": 3, "a_dim": 2, "capacity": 5, "n_s": 3, "n_a": 2, "memory_size": 5}
LISTS |= {"batch_size": 2, "seed": 0, "dones": False, "dtype": "float32"}
MODULES = [(memory_tools, ONE), (memory_tools_marl, MANY), (v1_tools, ONE), (v1_marl, V1_MANY), (pymarl, PYMARL)]
MODULES.append((maddpg, LISTS))
NO_CALLS = {"BaseBuffer", "Buffer", "Transform", "PolicyBuffer", "make_env", "Actor", "Critic", "MADDPG"}
"""Abstract classes, a list, networks and what PyTorch checks."""


def made(kind: Any, good: dict[str, Any]) -> Any:
    parameters = inspect.signature(kind).parameters
    extra = {
        name: good[name]
        for name in ("n_actions_max", "prob_space", "dim_act", "max_episode_length", "td_lambda", "avail_actions_shape")
        if name in good
    }
    takes_any = any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters.values())
    return kind(**{name: good[name] for name in parameters if name in good}, **(extra if takes_any else {}))


def transitions() -> Any:
    buffer = maddpg.Buffer(ARGS, seed=0)
    for _ in range(3):
        buffer.store_episode(*[[np.ones(3)] * 2, [np.ones(2)] * 2, [1.0, 1.0], [np.ones(3)] * 2])
    return buffer


def steps(kind: Any) -> Any:
    buffer = made(kind, ONE)
    for _ in range(3):
        buffer.store(np.ones((2, 3)), np.zeros(2, int), np.ones(2), np.zeros(2), np.ones((2, 3)))
    return buffer


def episodes() -> Any:
    batch = made(pymarl.EpisodeBatch, PYMARL)
    batch.update({"obs": np.ones((1, 6, 2, 2))})
    return batch


def replay(kind: Any) -> Any:
    buffer = made(kind, PYMARL)
    for _ in range(3):
        buffer.insert_episode_batch(episodes())
    return buffer


def calls() -> Iterator[tuple[str, dict[str, Any], Callable[[], Any]]]:
    """Names, arguments that are right, and what makes a class or an object's method anew."""
    objects: dict[str, tuple[dict[str, Any], Callable[[], Any]]] = {
        "transitions": (LISTS, transitions),
        "EpisodeBatch": (PYMARL, episodes),
    }
    for module, good in MODULES:
        place = module.__name__.removeprefix("relive.compat.")
        for name in set(module.__all__) - (NO_CALLS - {"Buffer"} if module is maddpg else NO_CALLS):
            kind = getattr(module, name)
            yield f"{place}.{name}", good, lambda kind=kind: kind
            if not isinstance(kind, type) or f"{place}.{name}" in ("maddpg.Buffer", "pymarl.EpisodeBatch"):
                continue
            make: Callable[[], Any] = lambda kind=kind, good=good: made(kind, good)  # noqa: E731
            if "OffPolicyBuffer" in name and module in (memory_tools, v1_tools) and "Recurrent" not in name:
                make = lambda kind=kind: steps(kind)  # noqa: E731
            elif name in ("ReplayBuffer", "PrioritizedReplayBuffer") and module is pymarl:
                make = lambda kind=kind: replay(kind)  # noqa: E731
            objects[f"{place}.{name}"] = (good, make)
    for name, (good, make) in objects.items():
        if name.endswith(("SegmentTree", "OneHot")):
            continue  # plain Python and PyTorch, as XuanCe's and PyMARL's are
        for method in dir(make()):
            if not method.startswith("_") and inspect.isroutine(getattr(make(), method, None)):
                yield f"{name}.{method}", good, lambda make=make, method=method: getattr(make(), method)


def arguments(call: Any, good: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every argument hostile at once, and each by itself beside good ones."""
    parameters = inspect.signature(call).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    required = [p.name for p in parameters if p.default is p.empty and p.name in names]
    for value in HOSTILE:
        yield dict.fromkeys(required, value)
        for name in names:
            yield {**{other: good.get(other, 1) for other in required}, name: value}
        if any(p.kind == p.VAR_KEYWORD for p in parameters):
            yield {**{other: good.get(other, 1) for other in required}, "obs": value, "use_actions_mask": True}


def state(call: Any) -> Any:
    owner = getattr(call, "__self__", None)
    if isinstance(owner, Saveable):
        memory, notes = owner._parts()
        return len(memory), memory.inspect.heads.tolist(), memory.random_state, repr(notes)
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "good", "make"), [pytest.param(*call, id=call[0]) for call in sorted(calls(), key=lambda c: c[0])]
)
def test_no_bare_error(
    name: str, good: dict[str, Any], make: Callable[[], Any], tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in arguments(make(), good):
        call = make()
        before = state(call)
        try:
            call(**given)
        except ReliveError:
            assert state(call) == before, given
        except (Exception, KeyboardInterrupt) as error:
            pytest.fail(f"{name}(**{given!r}) raised {error!r}")
