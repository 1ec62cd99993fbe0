"""Whatever a public name of the memory is called with, what comes back is a result or an error of ours."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import relive as rl
from hostile_values import HOSTILE
from relive.errors import ReliveError

LATER = {"agents", "distributed", "envs", "errors", "load_policy", "resume", "serve", "targets", "train"}
"""Modules, and what trains or serves."""
NO_CALLS = {"Batch", "Group", "Sampler", "Window"}
"""Dictionaries, and protocols, which Python itself refuses to make."""
WAITS = {"close", "flush", "prefetch"}


def new_memory() -> rl.Memory:
    schema = rl.Schema(obs=rl.Field((2,)), action=rl.Field((), "uint8"))
    memory = rl.Memory(schema, 20, 2, sampler=rl.Prioritized(), seed=0)
    for t in range(6):
        ends = {"terminated": [t == 5, False], "truncated": [False, False]}
        memory.append(obs=np.full((2, 2), t), action=[t, t], reward=[t, t], **ends)
    return memory


def new_rollout() -> rl.Rollout:
    rollout = rl.Rollout(rl.Schema(obs=rl.Field(), value=rl.Field()), 4, 2, seed=0)
    for t in range(3):
        rollout.append(obs=[t, t], value=[0, 0], reward=[0, 0], terminated=[False] * 2, truncated=[False] * 2)
    return rollout


OBJECTS: dict[str, Callable[[], Any]] = {
    "Memory": new_memory,
    "Rollout": new_rollout,
    "Schema": lambda: rl.Schema(obs=rl.Field((2,))),
    "FrameStack": lambda: rl.FrameStack(2),
    "LinearSchedule": lambda: rl.LinearSchedule(0, 1, 5),
    "Inspection": lambda: new_memory().inspect,
    "Transfer": lambda: new_memory().transfer,
}


def public_calls() -> Iterator[tuple[str, Callable[[], tuple[Any, Any]]]]:
    """Names, and what makes an object and its method anew."""
    for name in sorted(set(rl.__all__) - LATER - NO_CALLS):
        yield name, lambda name=name: (None, getattr(rl, name))
    for name in rl.targets.__all__:
        yield f"targets.{name}", lambda name=name: (None, getattr(rl.targets, name))
    for kind, make in OBJECTS.items():
        for name in dir(make()):
            if not name.startswith("_") and name not in WAITS and inspect.isroutine(getattr(make(), name, None)):
                yield f"{kind}.{name}", lambda make=make, name=name: (thing := make(), getattr(thing, name))


def arguments(call: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Every argument hostile at once, and each by itself."""
    parameters = inspect.signature(call).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind == p.KEYWORD_ONLY]
    places = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for value in HOSTILE:
        yield [value] * len(places), dict.fromkeys(required, value)
        for parameter in parameters:
            others: dict[str, Any] = dict.fromkeys(required, 1)
            if parameter.kind == parameter.VAR_KEYWORD:
                yield [1] * len(places), {**others, "obs": value}
            elif parameter.default is not parameter.empty:
                yield [1] * len(places), {**others, parameter.name: value}


def state(thing: Any) -> Any:
    memory = getattr(thing, "memory", thing)
    if not isinstance(memory, rl.Memory):
        return None
    return (
        len(memory),
        memory.inspect.heads.tolist(),
        memory.random_state,
        memory.priorities.tolist() if isinstance(memory.sampler, rl.Prioritized) else None,
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "make"), [pytest.param(*call, id=call[0]) for call in public_calls()])
def test_no_bare_error(name: str, make: Callable[[], tuple[Any, Any]], tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for positional, named in arguments(make()[1]):
        thing, call = make()
        before = state(thing)
        try:
            result = call(*positional, **named)
            if inspect.isgenerator(result):
                list(itertools.islice(result, 2))
            if isinstance(result, (rl.Prefetch, rl.Memory, rl.Writer)):
                result.close()
        except ReliveError:
            assert state(thing) == before, (positional, named)
        except (Exception, KeyboardInterrupt) as error:
            pytest.fail(f"{name}(*{positional!r}, **{named!r}) raised {error!r}")
