"""``relive inspect``: the contents of a memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from relive.errors import RunError
from relive.memory import Memory, Prioritized
from relive.training import checkpoint
from relive.training.pictures import save_picture
from relive.training.style import add_caption, styled

__all__ = ["inspect"]


def inspect(path: Path, out: Path | None) -> None:
    """Print and plot a memory's fields, bytes, episodes, returns and priorities."""
    memory = checkpoint.load_memory(path) if checkpoint.exists(path) else Memory.load(path)
    statistics = _statistics(memory)
    used, room = (f"{bytes_ / 2**20:.1f} MiB" for bytes_ in (memory.inspect.used_nbytes, memory.nbytes))
    print(f"{len(memory):,} steps, {used}; room for {memory.capacity:,} rows in {memory.lanes} lanes, {room}")
    print(f"sampler {memory.sampler}, window {memory.window}")
    width = max(len(column.key) for column in memory.schema)
    for column in memory.schema:
        shape = f"[{', '.join(map(str, column.shape))}]" if column.shape else ""
        print(
            f"  {column.key:<{width}}  {str(column.dtype) + shape:<18} {column.nbytes:>7,} bytes a row  {column.role}"
        )
    for name, values in statistics.items():
        if len(values):
            low, middle, high = np.quantile(values, [0, 0.5, 1])
            print(f"{name}: {len(values):,}, {low:.4g} to {high:.4g}, mean {np.mean(values):.4g}, median {middle:.4g}")
    if out is not None:
        print(_draw(statistics, f"Memory of {len(memory):,} steps in {memory.lanes} lanes", out))


def _statistics(memory: Memory) -> dict[str, Any]:
    """Statistics by name."""
    episodes = memory.episodes
    ended = (episodes.terminated | episodes.truncated) & episodes.whole
    found: dict[str, Any] = {"episode lengths (steps)": episodes.length[ended]}
    names = [column.key for column in memory.schema if column.role == "reward"]
    for name in names:
        rewards = memory[name]
        rewards = rewards if memory.lanes > 1 or rewards.shape[:1] == (memory.lanes,) else rewards[None]
        rows = rewards.shape[1]
        totals = []
        for lane, start, length in zip(
            episodes.lane[ended], episodes.start[ended], episodes.length[ended], strict=True
        ):
            slots = (start + np.arange(length)) % (memory.capacity // memory.lanes)
            if slots.max() < rows:
                totals.append(float(np.mean(rewards[lane, slots].reshape(length, -1).sum(axis=0))))
        found[f"episode returns ({name})"] = np.array(totals)
    newest = episodes.start + episodes.length
    heads = np.zeros(memory.lanes, np.int64)
    np.maximum.at(heads, episodes.lane, newest)
    found["episode ages (rows since the end)"] = heads[episodes.lane] - newest
    if isinstance(memory.sampler, Prioritized):
        values = memory.priorities
        found["priorities"] = values[values > 0]
    return found


def _draw(statistics: dict[str, Any], title: str, path: Path) -> Path:
    shown = {name: values for name, values in statistics.items() if len(values)}
    if not shown:
        raise RunError("memory", "hold finished episodes to be drawn", "none")
    with styled() as new_figure:
        figure = new_figure(figsize=(3.6 * len(shown), 3.6), layout="constrained")
        grid = figure.subplots(1, len(shown), squeeze=False)
        for axes, (name, values) in zip(grid[0], shown.items(), strict=True):
            axes.hist(values, bins=min(40, max(5, len(np.unique(values)))), edgecolor="white", linewidth=0.4)
            axes.set(xlabel=name, ylabel="rows" if name == "priorities" else "episodes")
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        add_caption(figure, "Histograms of what the memory holds; episodes that are complete.")
        return save_picture(figure, path)
