"""On-policy rollout buffer: append steps, compute advantages, iterate in epochs, clear."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

import numpy as np

from relive.errors import NotEnoughRows, OptionError
from relive.memory import checks
from relive.memory.batch import Batch, nested
from relive.memory.memory import Memory
from relive.memory.rollout_table import Table
from relive.memory.storage.ground import Storage
from relive.memory.targets import gae, n_step_returns
from relive.memory.targets import normalize as normalized
from relive.messages import brief
from relive.schema import Column, Schema
from relive.types import Array, Lanes, Value

__all__ = ["Rollout"]


@final
class Rollout:
    """The steps of one policy in vectorised environments; an epoch has all of them.

    If the schema has ``value``, ``finish`` computes ``advantage`` and ``returns``, for each group of agents that has
    one. Rows live in a memory (``rollout.memory``) and are appended as there.

    Args:
        schema: The fields of a step: observations, actions, and what the policy adds, such as ``log_prob``.
        length: Steps of each lane: the rollout length T.
        lanes: Vectorised environments. None: one, and values without that axis.

    >>> import relive as rl
    >>> rollout = rl.Rollout(rl.Schema(obs=rl.Field(), value=rl.Field()), length=3, lanes=1, seed=0)
    >>> for t in range(3):
    ...     rollout.append(obs=[t], value=[0.5], reward=[1.0], terminated=[t == 1], truncated=[False])
    >>> last = rollout.bootstrap(obs=[4.0])  # observations to bootstrap from: here only the current one
    >>> rollout.finish(0.25 * last.obs, gamma=1.0, lam=1.0)
    >>> [sorted(batch.advantage.tolist()) for batch in rollout.epochs(1, size=3)]
    [[0.5, 1.5, 1.5]]
    """

    def __init__(
        self,
        schema: Schema,
        length: int,
        lanes: int | None = None,
        *,
        storage: Storage | None = None,
        seed: int | None = None,
    ) -> None:
        length = checks.whole("length", length, 1, 2**30)
        rows = 2 * length + 2  # every step may end an episode, which leaves a closing row
        self._take(Memory(schema, rows * checks.lane_count(lanes), lanes, storage=storage, seed=seed))
        self._began[:] = True

    def _take(self, memory: Memory) -> None:
        self.memory, self.schema, self.lanes = memory, memory.schema, memory.lanes
        self._span = memory.capacity // memory.lanes
        self.length = self._span // 2 - 1
        self._began = np.zeros(self.lanes, bool)  # whether the first row starts an episode; unknown for loaded rows
        self._table: Table | None = None
        self._epochs = 0
        self._recount()

    # ---- writing ---------------------------------------------------------------------------------------------------

    def append(self, /, *, lanes: Lanes = None, **step: Value) -> None:
        """Append one step of all lanes, or of some, as ``Memory.append`` does."""
        self._check_room(lanes, 1)
        self.memory.append(lanes=lanes, **step)
        self._written(lanes, 1)

    def extend(self, /, *, lanes: Lanes = None, **block: Value) -> None:
        """Append a block of steps, as ``Memory.extend`` does."""
        ended: Any = block.get("terminated", (False,))
        time = len(ended)
        self._check_room(lanes, time)
        self.memory.extend(lanes=lanes, **block)
        self._written(lanes, time)

    def cut(self, lanes: Lanes = None) -> None:
        """End the open episodes of lanes whose environments were reset without an end.

        The newest row's outcome will never be known, so it becomes the final observation of the step before it.
        """
        self.memory.cut(lanes)
        self._recount()
        where = slice(None) if lanes is None else checks.some_lanes(lanes, self.lanes)
        began = np.zeros(self.lanes, bool)
        began[where] = True
        self._began |= began & (self._counts == 0)
        self._table = None

    def clear(self) -> None:
        """Remove all steps, for the next rollout. Open episodes continue."""
        self._began = np.where(self._counts > 0, self._last_ended(), self._began)
        self.memory.clear()
        self._counts[:] = 0
        self._most = self._epochs = 0
        self._table = None

    # ---- targets ---------------------------------------------------------------------------------------------------

    def bootstrap(self, **last: Value) -> Batch:
        """Observations to bootstrap from, ``[M, ...]``: every lane's current one, then the final ones of truncated
        episodes. ``finish`` takes their values.

        Args:
            last: Current observations by field name, ``[lanes, ...]``.
        """
        table = self._rows()
        lane, serial = table.lane[table.cut], table.serial[table.cut]
        found = {}
        for column in self._observed():
            if column.key not in last:
                names = ", ".join(each.key for each in self._observed())
                raise OptionError("last", f"have the observed fields ({names})", ", ".join(last) or "nothing")
            given = checks.host(column.key, last[column.key])
            shape = column.shape if self.memory.bare else (self.lanes, *column.shape)
            if given.shape != shape:
                raise OptionError(column.key, f"have shape {list(shape)}", list(given.shape))
            closing = self._view(column.key)[lane, (serial + 1) % self._span]
            now = given.astype(column.dtype, copy=False).reshape(self.lanes, *column.shape)
            found[column.key] = np.concatenate([now, closing])
        table.bootstrap = found
        return nested(found)

    def before_bootstrap(self) -> Batch:
        """The steps before the observations of ``bootstrap``, ``[M, ...]``, whose recurrent states they continue. Zeros
        for lanes without a step.
        """
        table = self._rows()
        newest = np.zeros(self.lanes, np.int64)
        newest[table.lane[table.newest]] = table.newest
        places, empty = np.concatenate([newest, table.cut]), np.flatnonzero(table.counts == 0)
        found = {key: values[places] for key, values in table.fields.items()}
        for values in found.values():
            values[empty] = 0
        return nested(found, self.schema.action_keys)

    def finish(
        self,
        next_value: Value,
        *,
        value: Mapping[str, Any] | None = None,
        gamma: float = 0.99,
        lam: float = 0.95,
        n_step: int | None = None,
        bootstrap_on_truncation: bool = True,
        reward: Callable[[str, Array], Array] | None = None,
        normalize: bool = False,
    ) -> None:
        """Compute ``advantage`` by GAE(gamma, lambda), and ``returns``, which are advantage + value.

        With per-agent rewards and an ``agent_mask``, an agent's return ends when it dies.

        Args:
            next_value: Values ``[M, ...]`` of the observations of ``bootstrap``; by the name of the value field if
                there are several.
            value: Values ``[n, ...]`` of all steps, in the order of ``rows``, by name; None: the stored ones.
            n_step: n-step returns in place of GAE.
            bootstrap_on_truncation: Whether to bootstrap from final observations of truncated episodes.
            reward: Rewards ``[n, ...]`` in place of the stored ones, by the name of their value field.
            normalize: Whether to normalise advantages to mean 0 and standard deviation 1, over agents alive.
        """
        bootstrap_on_truncation = checks.flag("bootstrap_on_truncation", bootstrap_on_truncation)
        normalize, table = checks.flag("normalize", normalize), self._rows()
        if value is not None and not isinstance(value, Mapping):
            raise OptionError("value", "be a mapping from names of value fields to values", type(value).__name__)
        if reward is not None and not callable(reward):
            raise OptionError("reward", "be a function of a value field's name and its rewards", type(reward).__name__)
        if value is None:
            held = [column.key for column in self.schema if column.key.split("/")[-1] == "value"]
            value = {name: table.fields[name] for name in held}
        names = list(value)
        if not names:
            raise OptionError("schema", "have a field value to finish a rollout", repr(self.schema))
        given = next_value if isinstance(next_value, Mapping) else {names[0]: next_value}
        if set(given) != set(names):
            raise OptionError("next_value", f"have {', '.join(names)}", ", ".join(map(str, given)))
        made = {}
        for name in names:
            above = name.removesuffix("value")
            earned = table.fields[self._reward_key(above)]
            earned = earned if reward is None else reward(name, earned)
            bootstrap = checks.host("next_value", given[name])
            ends = table.terminated if bootstrap_on_truncation else table.terminated | table.truncated
            how = {"gamma": gamma, "lam": lam} if n_step is None else {"gamma": gamma, "n": n_step}
            advantage, returns, alive = self._targets(name, np.asarray(value[name]), earned, bootstrap, ends, how)
            if normalize:
                mask = None if alive is None else alive.reshape(alive.shape + (1,) * (advantage.ndim - alive.ndim))
                mask = None if mask is None else np.broadcast_to(mask, advantage.shape)
                advantage = normalized(advantage, mask=mask)
            made[f"{above}advantage"], made[f"{above}returns"] = advantage, returns
        table.fields.update(made)

    def _targets(
        self, name: str, value: Array, reward: Array, bootstrap: Array, terminated: Array, how: Mapping[str, Any]
    ) -> tuple[Array, Array, Array | None]:
        """Advantages and returns of a value field, and its agent mask."""
        table = self._rows()
        if list(bootstrap.shape) != [self.lanes + len(table.cut), *value.shape[1:]]:
            shape = [self.lanes + len(table.cut), *value.shape[1:]]
            raise OptionError("next_value", f"have shape {shape}", list(bootstrap.shape))
        alive = table.fields.get(f"{name.removesuffix('value')}agent_mask")
        truncated, mask = table.truncated & ~terminated, np.ones(len(value), bool)
        if alive is not None and reward.ndim > 1 and value.ndim > 1:  # dead agents get no more reward
            next_alive = table.bootstrap.get(f"{name.removesuffix('value')}agent_mask")
            if next_alive is None:
                raise OptionError("rollout", "know who is there now", "nothing", "Call bootstrap before finish.")
            terminated = terminated[:, None] | ~table.next_values(alive, next_alive)
            truncated, mask = truncated[:, None] & ~terminated, alive
        reward = reward.astype(value.dtype)
        reward = np.broadcast_to(reward.reshape(reward.shape + (1,) * (value.ndim - reward.ndim)), value.shape)
        parts = (reward, value, table.next_values(value, bootstrap), terminated, truncated, mask)
        earned, now, after, *flags = map(table.dense, parts)
        ends: dict[str, Any] = dict(zip(("terminated", "truncated", "mask"), flags, strict=True))
        if "lam" in how:
            advantage, returns = map(table.flat, gae(earned, now, after, **ends, **how))
        else:
            returns = table.flat(n_step_returns(earned, after, **ends, **how))
            there = mask.reshape(mask.shape + (1,) * (value.ndim - mask.ndim))
            advantage = (returns - value) * there
        return advantage, returns, alive

    # ---- reading ---------------------------------------------------------------------------------------------------

    def epochs(
        self, count: int, size: int, *, length: int | None = None, start_fields: str | tuple[str, ...] = ()
    ) -> Iterator[Batch]:
        """Minibatches of about ``size`` steps, over ``count`` shuffled epochs.

        Minibatches of an epoch differ in size by at most one, so that none is too small to learn from.

        Args:
            size: Steps of a minibatch, or sequences.
            length: Read consecutive sequences ``[B, length, ...]`` of each lane, across episode ends: ``starts`` is
                True where an episode begins and a recurrent state is reset; ``mask`` is False, and everything zero,
                where the lane has no more steps; ``lengths`` counts its steps.
            start_fields: Fields read at the first step of sequences only, ``[B, ...]``, such as a recurrent state.
        """
        count, size = checks.whole("count", count, 0, 2**31 - 1), checks.whole("size", size, 1, 2**31 - 1)
        if length is not None:
            length = checks.whole("length", length, 1, 2**31 - 1)
        if not isinstance(start_fields, (str, tuple, list)):
            raise OptionError("start_fields", "be names of fields", brief(start_fields))
        first_only = (start_fields,) if isinstance(start_fields, str) else tuple(start_fields)
        table = self._rows()
        for name in first_only:
            if length is None or not isinstance(name, str) or name not in table.fields:
                rule = f"name fields ({', '.join(table.fields)}) of sequences, which have a length"
                raise OptionError("start_fields", rule, repr(name))
        return self._minibatches(table, count, size, length, first_only)

    def _minibatches(
        self, table: Table, count: int, size: int, length: int | None, start_fields: tuple[str, ...]
    ) -> Iterator[Batch]:
        key = (self.memory.random_state["key0"], self.memory.random_state["key1"], int(table.serial.max()))
        units = np.arange(len(table.lane)) if length is None else table.chunks(length)
        for _ in range(count):
            order = np.random.default_rng([*key, self._epochs]).permutation(units)
            self._epochs += 1
            for some in np.array_split(order, -(-len(order) // size)):
                yield table.rows(some) if length is None else table.sequences(some, length, start_fields)

    # ---- looking ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Steps stored."""
        return len(self.memory)

    def __bool__(self) -> bool:
        """Always true: an empty rollout is a rollout."""
        return True

    def rows(self) -> Batch:
        """All steps, lane by lane."""
        table = self._rows()
        return table.rows(np.arange(len(table.lane)))

    def __getitem__(self, key: str) -> Array:
        """A field of all steps ``[n, ...]``, lane by lane; ``advantage`` and ``returns`` too once they are computed."""
        fields = self._rows().fields
        if key not in fields:
            raise KeyError(f"key must be one of {', '.join(fields)}, got {key!r}")
        return fields[key]

    def __contains__(self, key: object) -> bool:
        return key in self._rows().fields

    @property
    def full(self) -> bool:
        """Whether a lane has ``length`` steps, so that the rollout must be cleared before the next."""
        return self._most >= self.length

    @property
    def ready(self) -> int:
        """Steps that can be read now: all."""
        return len(self)

    def __repr__(self) -> str:
        return f"Rollout({len(self):,} steps, {self.lanes} lanes of {self.length:,}, {self.schema})"

    # ---- persistence -----------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save the steps to a folder, as ``Memory.save`` does."""
        self.memory.save(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Rollout:
        """The rollout saved to a folder. Targets have to be computed again."""
        rollout = cls.__new__(cls)
        rollout._take(Memory.load(folder))
        return rollout

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _observed(self) -> list[Column]:
        return [column for column in self.schema if column.role == "observed"]

    def _reward_key(self, above: str) -> str:
        """The reward of a group (``"red/"``, or ``""``), or else the one of the whole environment."""
        rewards = [column.key for column in self.schema if column.role == "reward"]
        for prefix in (above, ""):
            own = [key for key in rewards if key.rpartition("/")[0] == prefix.rstrip("/")]
            if f"{prefix}reward" in own or len(own) == 1:
                return f"{prefix}reward" if f"{prefix}reward" in own else own[0]
            if own:
                raise OptionError("schema", "have one reward to finish a rollout", ", ".join(own), "Name one reward.")
        remedy = "Add a field named reward."
        raise OptionError("schema", "have a reward to finish a rollout", repr(self.schema), remedy)

    def _view(self, key: str) -> Array:
        view = self.memory[key]
        return view[None] if self.memory.bare else view

    def _check_room(self, lanes: Any, time: int) -> None:
        if self._most + time <= self.length:
            return
        where = slice(None) if lanes is None else checks.some_lanes(lanes, self.lanes)
        if (self._counts[where] + time > self.length).any():
            raise OptionError("rollout", "have room for a step", f"{self.length} of {self.length}", "Clear it first.")

    def _written(self, lanes: Any, time: int) -> None:
        self._counts[slice(None) if lanes is None else checks.some_lanes(lanes, self.lanes)] += time
        self._most = int(self._counts.max())
        self._table = None

    def _recount(self) -> None:
        episodes = self.memory.episodes
        self._counts = np.bincount(episodes.lane, episodes.length, minlength=self.lanes).astype(np.int64)
        self._most = int(self._counts.max())

    def _last_ended(self) -> Array:
        episodes = self.memory.episodes
        ended = np.zeros(self.lanes, bool)
        ended[episodes.lane] = episodes.terminated | episodes.truncated  # the newest of a lane comes last
        return ended

    def _rows(self) -> Table:
        if self._table is None:
            if not len(self):
                raise NotEnoughRows("rollout", "hold steps", "none", "Append some first.")
            self._table = Table(self.memory.episodes, self.lanes, self._began, self.schema.action_keys)
            where = (self._table.lane, self._table.serial % self._span)
            self._table.fields = {column.key: self._view(column.key)[where] for column in self.schema}
        return self._table
