"""relive's memory and targets."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np

import relive as rl
from workloads import Array, Columns, EpisodeSpec, GaeSpec, PrioritySpec, RowSpec

NAME = "relive"

ENVS = 8


def version() -> str:
    """The version of relive."""
    return rl.__version__


def _rows(spec: RowSpec) -> int:
    """Rows for that many transitions: each episode has a closing row."""
    return spec.capacity + spec.capacity // spec.horizon


def _steps(chunk: Columns, names: dict[str, str]) -> dict[str, Any]:
    """A chunk as steps: observed columns once, and what was seen after each episode's last step."""
    done = chunk["done"] > 0
    block: dict[str, Any] = {"terminated": done, "truncated": np.zeros_like(done)}
    for name, column in chunk.items():
        if name.startswith("next_"):
            block[f"final_{names.get(name[5:], name[5:])}"] = column[done]
        elif name != "done":
            block[names.get(name, name)] = column
    return block


def _memory(spec: RowSpec, **options: Any) -> rl.Memory:
    fields: dict[str, Any] = {"obs": rl.Field((17,)), "action": rl.Field((6,))}
    memory = rl.Memory(rl.Schema(**fields), _rows(spec), seed=spec.seed, **options)
    for chunk in spec.chunks():
        memory.extend(**_steps(chunk, {}))
    return memory


def w1(spec: RowSpec) -> Callable[[], rl.Batch]:
    """Uniform transitions."""
    memory = _memory(spec)
    return lambda: memory.sample(spec.batch)


def w2(spec: PrioritySpec) -> Callable[[], rl.Batch]:
    """Prioritised transitions, then their new priorities."""
    memory = _memory(spec, sampler=rl.Prioritized(spec.alpha, spec.beta))
    steps = np.arange(spec.capacity)
    serials = steps + steps // spec.horizon
    memory.update_priorities({"lanes": np.zeros_like(serials), "serials": serials}, spec.priorities())
    news = cycle(spec.new_priorities())

    def sample_and_update() -> rl.Batch:
        batch = memory.sample(spec.batch)
        memory.update_priorities(batch, next(news))
        return batch

    return sample_and_update


def w3(spec: RowSpec) -> Callable[[], rl.Batch]:
    """Frames stored once, stacked when read."""
    schema = rl.Schema(obs=rl.Field((84, 84), "uint8"), action=rl.Field((), "uint8"))
    memory = rl.Memory(schema, _rows(spec), stack={"obs": 4}, seed=spec.seed)
    for chunk in spec.chunks():
        latest = {name: column[:, -1] if "obs" in name else column for name, column in chunk.items()}
        memory.extend(**_steps(latest, {}))
    return lambda: memory.sample(spec.batch)


def w4(spec: RowSpec) -> Callable[[], rl.Batch]:
    """A team's transitions; masks are booleans and actions bytes."""
    schema = rl.Schema(
        obs=rl.Field((8, 40)),
        state=rl.Field((68,)),
        avail_actions=rl.Field((8, 14), "bool"),
        action=rl.Field((8,), "uint8"),
    )
    memory = rl.Memory(schema, _rows(spec), seed=spec.seed)
    for chunk in spec.chunks():
        small = {name: column > 0 if name.endswith("avail") else column for name, column in chunk.items()}
        memory.extend(**_steps(small, {"avail": "avail_actions"}))
    return lambda: memory.sample(spec.batch)


def w5(spec: EpisodeSpec) -> Callable[[], rl.Batch]:
    """Whole episodes; the last of their entries is what was seen after the last step."""
    schema = rl.Schema(
        obs=rl.Field((4, 40)),
        state=rl.Field((68,)),
        avail_actions=rl.Field((4, 10), "bool"),
        actions=rl.Field((4, 1), "uint8"),
    )
    window = rl.Episodes(length=spec.steps - 1)
    memory = rl.Memory(schema, spec.capacity * spec.steps, window=window, seed=spec.seed)
    for chunk in spec.chunks():
        for episode in zip(*chunk.values(), strict=True):
            memory.extend(**_episode(dict(zip(chunk, episode, strict=True))))
    return lambda: memory.sample(spec.batch)


def _episode(entries: Columns) -> dict[str, Any]:
    filled = entries["filled"][:, 0] > 0
    entries = {name: column[filled] for name, column in entries.items()} | {
        "avail_actions": entries["avail_actions"][filled] > 0
    }
    steps = len(entries["reward"]) - 1
    terminated = np.arange(steps) == steps - 1
    block: dict[str, Any] = {name: entries[name][:-1] for name in ("obs", "state", "avail_actions", "actions")}
    block |= {f"final_{name}": entries[name][-1:] for name in ("obs", "state", "avail_actions")}
    return block | {
        "reward": entries["reward"][:-1, 0],
        "terminated": terminated,
        "truncated": np.zeros_like(terminated),
    }


def w6a(spec: RowSpec) -> Callable[[], None]:
    """One step of eight environments."""
    schema = rl.Schema(obs=rl.Field((17,)), action=rl.Field((6,)))
    memory = rl.Memory(schema, spec.capacity, ENVS, seed=spec.seed)
    for chunk in spec.chunks():
        rows = len(chunk["done"]) // ENVS * ENVS
        memory.extend(
            **{
                name: column[:rows].reshape(-1, ENVS, *column.shape[1:])
                for name, column in _steps(chunk, {}).items()
                if not name.startswith("final_")
            }
        )
    step = {name: column for name, column in _steps(spec.step(), {}).items() if not name.startswith("final_")}
    obs, action, reward = step["obs"], step["action"], step["reward"]
    terminated, truncated = step["terminated"], step["truncated"]
    return lambda: memory.append(obs=obs, action=action, reward=reward, terminated=terminated, truncated=truncated)


def w6b(spec: RowSpec) -> Callable[[], None]:
    """A block of rows of one environment."""
    memory = _memory(spec)
    block = _steps(spec.step(), {})
    return lambda: memory.extend(**block)


def w7(spec: GaeSpec) -> Callable[[], Array]:
    """Advantages and returns in one native pass."""
    data = spec.rollout()
    reward, terminated = data["reward"], data["done"] > 0
    value = np.concatenate([data["value"], data["last_value"][None]])
    return lambda: rl.targets.gae(reward, value, terminated=terminated, gamma=spec.gamma, lam=spec.lam)[0]
