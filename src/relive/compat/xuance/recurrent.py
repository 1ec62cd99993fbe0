"""XuanCe's memory of whole episodes of one agent, read in sequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np

from relive.compat.checks import at_least, flags_of, index, within
from relive.compat.drawing import generator
from relive.compat.episodes import EpisodeRing
from relive.compat.nests import field_of, in_nest
from relive.compat.saving import Saveable, exclusive
from relive.compat.xuance.buffer import Buffer
from relive.errors import NotEnoughRows, OptionError, Problem, StepError
from relive.memory import Memory, Sequence
from relive.memory.batch import entry
from relive.messages import brief
from relive.schema import Field, Schema
from relive.types import Array

__all__ = ["EpisodeBuffer", "RecurrentOffPolicyBuffer"]


@final
class EpisodeBuffer:
    """An episode as it grows: lists of what was seen, done and received, one observation more than there are actions.

    The first observation is appended to ``obs`` by hand, the ones after every step come with ``put``.
    """

    def __init__(self) -> None:
        self.obs: list[Any] = []
        self.action: list[Any] = []
        self.reward: list[Any] = []
        self.done: list[Any] = []

    def put(self, transition: Any) -> None:
        """Add a step: what was seen after it, the action, the reward and whether the episode ended."""
        if not isinstance(transition, (tuple, list)) or len(transition) != 4:
            raise OptionError("transition", "be an observation, an action, a reward and a flag", brief(transition))
        obs, action, reward, done = transition
        self.obs.append(obs)
        self.action.append(action)
        self.reward.append(reward)
        self.done.append(done)

    def sample(self, lookup_step: int | None = None, idx: int | None = None) -> dict[str, Array]:
        """Steps from ``idx`` (default: the first) on, ``lookup_step`` of them (default: all), by name."""
        first = 0 if idx is None else index("idx", idx, 0, len(self))
        until = len(self) if lookup_step is None else first + at_least("lookup_step", lookup_step, 0)
        return {
            "obs": np.array(self.obs[first : until + 1]),
            "acts": np.array(self.action[first:until]),
            "rews": np.array(self.reward[first:until]),
            "done": np.array(self.done[first:until]),
        }

    def __len__(self) -> int:
        return len(self.action)


class RecurrentOffPolicyBuffer(Buffer, Saveable):
    """The newest ``buffer_size / n_envs`` episodes, of which sequences of ``lookup_length`` steps are drawn.

    Args:
        episode_length: Steps that episodes mostly have; longer ones are stored all the same.
        lookup_length: Steps of a sequence.
        padded: Whether sequences of shorter episodes are padded with zeros, and ``sample`` has a ``mask``. Otherwise a
            batch is cut to its shortest sequence, as learners need it that know no mask.
    """

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        auxiliary_shape: Any,
        n_envs: int,
        buffer_size: int,
        batch_size: int,
        episode_length: int,
        lookup_length: int,
        *,
        seed: int | None = None,
        padded: bool = False,
    ) -> None:
        super().__init__(observation_space, action_space, auxiliary_shape, n_envs, buffer_size)
        self._padded = padded
        self.batch_size = at_least("batch_size", batch_size, 1)
        self.episode_length = at_least("episode_length", episode_length, 1)
        self.lookup_length = at_least("lookup_length", lookup_length, 1)
        self._fields = {
            "obs": _observed(field_of("observation_space", observation_space)),
            "acts": field_of("action_space", action_space),
            "rews": Field((), "float32", role="plain"),
            "done": Field((), "bool", role="plain"),
        }
        # A window of lookup_length steps has to fit, even if no episode is that long.
        self._longest = max(self.episode_length, self.lookup_length)
        self._ring = self._new_ring(self._longest, seed)

    def _new_ring(self, longest: int, seed: int | None) -> EpisodeRing:
        schema = Schema(reward=None, **self._fields)
        return EpisodeRing(schema, self.n_size, longest, Sequence(self.lookup_length), seed)

    @property
    def memory(self) -> list[EpisodeBuffer]:
        """The episodes, oldest first; copies."""
        first = self._ring.put - self._ring.size
        return [self._episode((first + k) % self.n_size) for k in range(self._ring.size)]

    def _episode(self, place: int) -> EpisodeBuffer:
        ring, episode = self._ring, EpisodeBuffer()
        length = int(ring.lengths[place])
        episode.obs = _listed(self._fields["obs"], "obs", lambda path: ring.rows(path, place), length + 1)
        episode.action = _listed(self._fields["acts"], "acts", lambda path: ring.rows(path, place), length)
        episode.reward, episode.done = list(ring.rows("rews", place)[:-1]), list(ring.rows("done", place)[:-1])
        return episode

    def can_sample(self) -> bool:
        """Whether there are as many episodes as a batch has sequences."""
        return self.size >= self.batch_size

    @exclusive
    def clear(self, *_: Any) -> None:
        """Forget everything."""
        self._ring.clear()
        self.ptr, self.size = 0, 0

    @exclusive
    def store(self, episode: EpisodeBuffer) -> None:
        """Store a whole episode; once there are ``n_size``, the oldest makes room."""
        if not isinstance(episode, EpisodeBuffer) and not hasattr(episode, "obs"):
            raise OptionError("episode", "be an EpisodeBuffer", brief(episode))
        length = len(episode)
        if length < 1:
            raise StepError((Problem("episode", "have a step", "none"),))
        if len(episode.obs) != length + 1:
            rule = "have one observation more than actions"
            remedy = "Append the first observation to episode.obs before the first put."
            raise StepError((Problem("episode", rule, f"{len(episode.obs)} and {length}", remedy),))
        within("acts", self.action_space, _stacked(self._fields["acts"], episode.action))
        if length > self._longest:
            self._give_room(length)
        self._append(episode, length)
        self.ptr, self.size = self._ring.next, self._ring.size

    def _give_room(self, length: int) -> None:
        """Put the episodes that are there into rows that have room for longer ones."""
        old, episodes = self._ring, self.memory
        self._longest = max(length, 2 * self._longest)
        self._ring = self._new_ring(self._longest, 0)
        self._ring.memory.random_state = old.memory.random_state
        self._ring.put = old.put - old.size
        for episode in episodes:
            self._append(episode, len(episode))

    def _append(self, episode: EpisodeBuffer, length: int) -> None:
        steps = {
            "obs": _stacked(self._fields["obs"], episode.obs[:-1]),
            "final_obs": _stacked(self._fields["obs"], episode.obs[-1:]),
            "acts": _stacked(self._fields["acts"], episode.action),
            "rews": _stacked(self._fields["rews"], episode.reward),
            "done": flags_of("done", episode.done, (length,)),
        }
        self._ring.append(steps, length, terminated=bool(steps["done"][-1]))

    @exclusive
    def sample(self) -> dict[str, Any]:
        """``obs`` ``[B, T + 1, ...]``, ``actions``, ``rewards`` and ``terminals`` ``[B, T, ...]``, and ``batch_size``.

        Episodes are drawn alike whatever their length, and within one all places where T steps follow. T is what the
        shortest of them has, at most ``lookup_length``; with ``padded`` it is always that, and ``mask [B, T]`` is True
        for real steps; the rest is zero.
        """
        ring = self._ring
        if ring.size == 0:
            raise NotEnoughRows("buffer", "hold an episode to be sampled", "none")
        random = generator(ring.memory)
        places = random.integers(0, ring.size, self.batch_size)
        lengths = ring.lengths[places]
        steps = self.lookup_length if self._padded else min(self.lookup_length, int(lengths.min()))
        spare = np.maximum(lengths - steps, 0)
        batch = ring.read(places, random.integers(0, spare + 1))
        samples = {
            "obs": in_nest(self._fields["obs"], "obs", lambda path: entry(batch, path)[:, : steps + 1]),
            "actions": in_nest(self._fields["acts"], "acts", lambda path: entry(batch, path)[:, :steps]),
            "rewards": batch.rews[:, :steps],
            "terminals": batch.done[:, :steps],
            "batch_size": self.batch_size,
        }
        return samples | {"mask": batch.mask} if self._padded else samples

    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        return self._ring.memory, self._ring.notes() | {"longest": self._longest}

    def _facts(self) -> dict[str, Any]:
        return {"n_size": self.n_size, "episode_length": self.episode_length}

    def _mold(self, notes: dict[str, Any]) -> Memory:
        longest = int(notes["longest"])
        return self._ring.memory if longest == self._longest else self._new_ring(longest, 0).memory

    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        self._ring.adopt(memory, notes)
        self._longest = int(notes["longest"])
        self.ptr, self.size = self._ring.next, self._ring.size


def _observed(field: Any) -> Any:
    """The same fields, seen before a step and once more after the last."""
    if isinstance(field, Mapping):
        return {key: _observed(below) for key, below in field.items()}
    if isinstance(field, tuple):
        return tuple(_observed(below) for below in field)
    return Field(field.shape, field.dtype, role="observed")


def _stacked(field: Any, values: list[Any]) -> Any:
    """One value a step as arrays ``[T, ...]``, nested as the field is."""
    if isinstance(field, Mapping):
        return {key: _stacked(below, [value[key] for value in values]) for key, below in field.items()}
    if isinstance(field, tuple):
        return tuple(_stacked(below, [value[i] for value in values]) for i, below in enumerate(field))
    return np.array([np.asarray(value) for value in values])


def _listed(field: Any, path: str, rows: Callable[[str], Array], count: int) -> list[Any]:
    """One value a step, out of arrays by path."""
    arrays: dict[str, Array] = {}

    def value(t: int) -> Any:
        return in_nest(field, path, lambda leaf: arrays[leaf][t])

    in_nest(field, path, lambda leaf: arrays.update({leaf: rows(leaf)}))
    return [value(t) for t in range(count)]
