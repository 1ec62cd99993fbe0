"""Films of a running run's episodes, replayed from a snapshot of the environment and the stored actions."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from relive.agents.interface import Algorithm
from relive.envs.interface import Env, Snapshots
from relive.envs.video import save_video
from relive.memory import Memory
from relive.training.environments import make_env
from relive.training.evaluate import draw_episode
from relive.types import Array

__all__ = ["Films", "Replay"]

_WATCHED = 10.0  # seconds after a request during which snapshots are taken
_EVERY = 1.0  # seconds between two snapshots
_LANES = 4  # environments of a snapshot that are kept
_KEPT = 64  # episodes


class Replay(NamedTuple):
    """An episode that can be replayed."""

    env: Env
    obs: Mapping[str, Any]
    actions: list[dict[str, Any]]


@final
class Films:
    """Records environment snapshots at episode starts, while a viewer is connected."""

    def __init__(self, algorithm: Algorithm, name: str, options: Mapping[str, Any]) -> None:
        self._algorithm, self._name, self._options = algorithm, name, dict(options)
        self._kept: OrderedDict[tuple[int, int], dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self._looked, self._noted = -np.inf, -np.inf
        self._single: dict[str, Any] | None = None

    def look(self) -> None:
        """Note that a viewer is connected."""
        self._looked = time.monotonic()

    @property
    def recording(self) -> bool:
        """Whether a snapshot should be taken when the next episode begins."""
        now = time.monotonic()
        return now - self._looked < _WATCHED and now - self._noted > _EVERY

    def note(self, env: Env, begun: Array, memory: Memory) -> None:
        """Record environments in which an episode starts.

        Args:
            begun: Which ones, ``[E]``.
        """
        lanes = np.flatnonzero(begun)[:_LANES]
        if not isinstance(env, Snapshots) or not len(lanes):
            return
        self._noted = time.monotonic()
        found, single, heads = env.snapshot(), self._one(), memory.inspect.heads
        with self._lock:
            for lane in lanes.tolist():
                parts = {name: _part(value, np.shape(single[name]), lane) for name, value in found.items()}
                self._kept[lane, int(heads[lane])] = parts
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)

    def there(self) -> list[tuple[int, int]]:
        """Lane and first serial of episodes that can be replayed."""
        with self._lock:
            return list(self._kept)

    def draw(self, memory: Memory, lane: int, start: int) -> bytes | None:
        """An episode as a GIF; None if it was not recorded, or has been overwritten."""
        found = self.replay(memory, lane, start)
        if found is None:
            return None
        try:
            video = draw_episode(found.env, found.obs, lambda _, step: found.actions[step], len(found.actions))
        finally:
            found.env.close()
        with tempfile.TemporaryDirectory() as folder:
            return save_video(Path(folder) / "episode.gif", video.frames, fps=video.fps).read_bytes()

    def replay(self, memory: Memory, lane: int, start: int) -> Replay | None:
        """An environment at an episode's start, and the episode's actions."""
        with self._lock:
            state = self._kept.get((lane, start))
        found = memory.episodes
        places = np.flatnonzero((found.lane == lane) & (found.start == start))
        if state is None or not len(places):
            return None
        length = int(found.length[places[0]])
        slots = (start + np.arange(length)) % (memory.capacity // memory.lanes)
        env = make_env(self._algorithm, self._name, 1, self._options)
        keys = [group.key("action") for group in env.groups]
        done = {key: (memory[key][None] if memory.bare else memory[key])[lane, slots] for key in keys}
        if int(memory.inspect.tails[lane]) > start or not isinstance(env, Snapshots):
            env.close()
            return None
        actions = [{key: values[step][None] for key, values in done.items()} for step in range(length)]
        return Replay(env, env.restore(state), actions)

    def _one(self) -> dict[str, Any]:
        """A snapshot of one environment, to know which axis is that of environments."""
        if self._single is None:
            env = make_env(self._algorithm, self._name, 1, self._options)
            env.reset(seed=0)
            assert isinstance(env, Snapshots)
            self._single = env.snapshot()
            env.close()
        return self._single


def _part(value: Any, single: tuple[int, ...], lane: int) -> Any:
    """One environment's part of an array; the environment axis is where the shape differs from a single one's."""
    shape = np.shape(value)
    for axis, (many, one) in enumerate(zip(shape, single, strict=True)):
        if many != one:
            return np.take(value, [lane], axis)
    return np.array(value)
