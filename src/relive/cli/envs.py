"""``relive envs``: the list of environments."""

from __future__ import annotations

import inspect
from typing import Any

from gymnasium import Space, spaces
from rich.console import Console
from rich.table import Table

from relive.envs import AgentGroup, Env, entries, find, make
from relive.envs.registry import full_name

__all__ = ["envs"]

_MORE = """\
Skirmishes of any size: marines_5v8. MarineMicro_MvsM_4 is marines_4v4.
Others' environments: CartPole-v1 (gymnasium:CartPole-v1), pettingzoo:sisl/pursuit-v5,
pettingzoo:mpe2.simple_spread_v3, pymarl:package.module:Class.
`relive envs NAME` shows one with its options."""


def envs(name: str = "") -> None:
    """List the environments with their agents and spaces.

    Args:
        name: Show only this one, with its options.
    """
    console = Console()
    if name:
        _show(console, name)
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for entry in entries():
        env = make(entry.name)
        groups = "\n".join(_group(group) for group in env.groups)
        table.add_row(entry.name, f"{entry.line}\n[dim]{groups}[/dim]")
        env.close()
    console.print(table)
    console.print()
    console.print(_MORE, highlight=False)


def _show(console: Console, name: str) -> None:
    env = make(name)
    entry = None if ":" in full_name(name) else find(name)
    console.print(f"[bold]{name}[/bold]  {entry.line if entry is not None else ''}".rstrip(), highlight=False)
    for line in describe(env):
        console.print(f"  {line}", highlight=False)
    if entry is not None:
        console.print("  options:", highlight=False)
        for parameter in inspect.signature(entry.make).parameters.values():
            if parameter.name != "num_envs":
                console.print(f"    {parameter.name} = {parameter.default!r}", highlight=False)
    env.close()


def describe(env: Env) -> list[str]:
    """A description of an environment in a few lines."""
    lines = []
    for group in env.groups:
        lines.append(_group(group))
    if env.state_space is not None:
        lines.append(f"state: {_space(env.state_space)}")
    if sum(map(len, env.groups)) > 1:
        lines.append("shared reward" if env.shared_reward else "per-agent rewards")
    if env.max_episode_steps is not None:
        lines.append(f"at most {env.max_episode_steps} steps")
    return lines


def _group(group: AgentGroup) -> str:
    masks = [text for flag, text in ((group.avail, "action masks"), (group.mask, "agent masks")) if flag]
    more = f" ({', '.join(masks)})" if masks else ""
    several = "s" if len(group) > 1 else ""
    title = f"{len(group)} x {group.name}" if group.name else f"{len(group)} agent{several}"
    return f"{title}: obs {_space(group.obs_space)}, action {_space(group.action_space)}{more}"


def _space(space: Space[Any]) -> str:
    """A space by Gymnasium's names, without bounds."""
    if isinstance(space, spaces.Discrete):
        return f"Discrete({space.n})"
    if isinstance(space, spaces.MultiDiscrete):
        return f"MultiDiscrete({space.nvec.ravel().tolist()})"
    if isinstance(space, spaces.Box):
        return f"Box({', '.join(map(str, (*space.shape, space.dtype)))})"
    if isinstance(space, spaces.Dict):
        return ", ".join(f"{key}: {_space(inner)}" for key, inner in space.spaces.items())
    if isinstance(space, spaces.Tuple):
        return ", ".join(_space(inner) for inner in space.spaces)
    return str(space)
