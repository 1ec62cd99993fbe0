"""Shards of one memory on a Ray cluster, on one machine or many."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, final

from relive.atomic_files import atomic_write
from relive.distributed.learner import ShardLearner
from relive.distributed.ray_start import connect, import_ray
from relive.distributed.shard import DURABILITIES, STORAGES, Shard, ShardSpec
from relive.distributed.tally import Ratio, Tally
from relive.distributed.writer import ShardWriter
from relive.errors import OptionError, SnapshotError, StorageError
from relive.memory import Memory, Prioritized, Sampler, Transition, Uniform, Window
from relive.memory.checks import path as checked_path
from relive.memory.checks import real, whole
from relive.old_files import GOT, REMEDY, is_old
from relive.schema import Schema
from relive.types import Lanes

__all__ = ["Shards"]

_MANIFEST = "cluster.json"
_FORMAT = "relive cluster"
_GROUPS = {"rows": 1, "draws": 1, "control": 2}
_AGAIN = 0.1  # seconds between two tries to reach a shard


@final
class Shards:
    """A memory sharded over processes of a Ray cluster; writers fill lanes, learners draw batches.

    It can be sent to other processes of the cluster, as an argument of a Ray task or actor.

    Args:
        capacity: Rows in all; a multiple of ``lanes``.
        lanes: Environments that write, in all; a multiple of ``shards``.
        sampler: ``Uniform`` or ``Prioritized``: one distribution over the rows of all shards.
        storage: Where a shard's rows live: ``"ram"``; ``"shared"``, for a learner on the same machine to read them
            without a call; or ``"mapped"``, files in ``folder``.
        durability: What a shard that died is restored from: nothing (``"none"``), its last snapshot (``"snapshot"``),
            or all acknowledged rows (``"journal"``). Priorities are those of its last snapshot.
        folder: Folder of snapshots and journals; with several nodes on a shared file system.
        save_every: Seconds between snapshots.
        limiter: Rate limiter: samples per inserted step; None: unlimited.
        num_cpus: CPUs that Ray reserves for each shard.
        resume: Restore what shards of the same settings left in ``folder``.

    >>> import relive as rl
    >>> schema = rl.Schema(obs=rl.Field((17,)), action=rl.Field((6,)))
    >>> with rl.distributed.Shards(schema, 1_000_000, shards=4, lanes=8) as cluster:  # doctest: +SKIP
    ...     with cluster.writer(block=100) as writer: ...
    ...     with cluster.learner(256) as batches: ...
    """

    def __init__(
        self,
        schema: Schema,
        capacity: int,
        *,
        shards: int = 1,
        lanes: int = 1,
        sampler: Sampler | None = None,
        window: Window | None = None,
        stack: Mapping[str, int] | None = None,
        max_episodes: int | None = None,
        storage: Literal["ram", "shared", "mapped"] = "ram",
        durability: Literal["none", "snapshot", "journal"] = "none",
        folder: str | Path | None = None,
        save_every: float = 60.0,
        journal_bytes: int = 1 << 30,
        limiter: Ratio | None = None,
        seed: int = 0,
        num_cpus: float = 0,
        resume: bool = False,
        _source: Path | None = None,
        _tally: dict[str, Any] | None = None,
    ) -> None:
        count = whole("shards", shards, 1, 1 << 16)
        lanes = whole("lanes", lanes, count, 1 << 31)
        if lanes % count:
            raise OptionError("lanes", f"be a multiple of the {count} shards", lanes)
        capacity = whole("capacity", capacity, lanes, 1 << 46)
        if capacity % lanes:
            raise OptionError("capacity", f"be a multiple of the {lanes} lanes", capacity)
        sampler = sampler if sampler is not None else Uniform()
        if not isinstance(sampler, (Uniform, Prioritized)):
            raise OptionError("sampler", "be Uniform or Prioritized", type(sampler).__name__)
        for name, value, known in (("storage", storage, STORAGES), ("durability", durability, DURABILITIES)):
            if value not in known:
                raise OptionError(name, f"be one of {', '.join(known)}", repr(value))
        if folder is None and (durability != "none" or storage == "mapped"):
            raise OptionError("folder", "be given for what has to outlive a shard", None)
        if durability == "journal" and storage == "shared":
            raise OptionError("durability", "be none or snapshot for shared memory", durability)
        if limiter is not None and not isinstance(limiter, Ratio):
            raise OptionError("limiter", "be a Ratio", type(limiter).__name__)
        window = window if window is not None else Transition()
        # The shards' options are checked here, where a mistake is easy to see. Pages never written to take no RAM.
        Memory(schema, capacity // count, lanes // count, sampler=sampler, window=window, stack=stack)
        place = None if folder is None else checked_path("folder", folder).resolve()
        if place is not None and not resume and any(place.glob("shard-*")):
            remedy = "Give resume=True to go on with it, or another folder."
            raise StorageError(str(place), "hold no shards yet", "some", remedy)
        self.limiter, self.sampler, self.schema, self.lanes, self.capacity = limiter, sampler, schema, lanes, capacity
        self._spec = ShardSpec(
            cluster=f"shards-{secrets.token_hex(6)}",
            index=0,
            schema=schema,
            capacity=capacity // count,
            lanes=lanes // count,
            sampler=_constant(sampler),
            window=window,
            stack=dict(stack or {}),
            max_episodes=None if max_episodes is None else -(-max_episodes // count),
            seed=whole("seed", seed, 0, 2**62),
            storage=storage,
            durability=durability,
            folder=None if place is None else str(place),
            save_every=real("save_every", save_every, 0.01, 1e9),
            journal_bytes=whole("journal_bytes", journal_bytes, 1 << 16, 1 << 50),
            tally=_tally or {},
        )
        connect()
        ray = import_ray()
        made = ray.remote(concurrency_groups=_GROUPS)(Shard)
        options = {
            "num_cpus": num_cpus,
            "max_restarts": -1,
            "max_task_retries": 0,  # a retried call would reach a restarted shard
            "scheduling_strategy": "SPREAD",
        }
        specs = [replace(self._spec, index=index) for index in range(count)]
        if _source is not None:
            specs = [replace(spec, source=str(_source / spec.name)) for spec in specs]
        self.handles = [made.options(**options).remote(spec) for spec in specs]
        self._owner = True
        ray.get([handle.state.remote() for handle in self.handles])  # errors of their making come out here

    # ---- users -----------------------------------------------------------------------------------------------------

    def writer(
        self, lanes: Lanes = None, *, block: int = 100, unacked: int = 8, timeout: float | None = None
    ) -> ShardWriter:
        """The exclusive writer of lanes, for this process or another.

        Args:
            lanes: Their numbers, with values ``[k, ...]``; or one, with values without that axis. None: all.
            block: Steps of every lane that are sent together.
            unacked: Blocks on their way to a shard; beyond them ``append`` waits.
            timeout: Seconds to wait for a dead shard or a slow learner; None: for ever.
        """
        return ShardWriter(self.handles, self._spec, self.limiter, lanes, block=block, unacked=unacked, timeout=timeout)

    def learner(
        self, size: int, *, ahead: int = 2, group: int = 16, timeout: float | None = None, direct: bool | None = None
    ) -> ShardLearner:
        """An endless iterator of prefetched batches.

        Args:
            size: Samples of a batch. A batch comes from one shard; which, is drawn in proportion to their totals.
            ahead: Calls in flight.
            group: Batches of a call, drawn by the priorities at that time.
            timeout: Seconds to wait for rows, writers or shards; None: for ever.
            direct: Read shared memory on this machine instead of calling shards; priorities are then this learner's, so
                there should be one. None: if the storage is shared and every shard is on this machine.
        """
        if direct is None:
            direct = self._spec.storage == "shared" and self._all_here()
        if direct and self._spec.storage != "shared":
            raise OptionError("direct", "be False unless the storage is shared", direct)
        return ShardLearner(
            self.handles, self._spec, self.sampler, self.limiter, size,
            ahead=ahead, group=group, timeout=timeout, direct=direct,
        )  # fmt: skip

    # ---- looking ---------------------------------------------------------------------------------------------------

    def state(self, *, timeout: float = 10.0) -> dict[str, Any]:
        """The state of all shards: one entry each, None for those that do not answer, and total counts."""
        ray = import_ray()
        calls = [handle.state.options(concurrency_group="control").remote() for handle in self.handles]
        ray.wait(calls, num_returns=len(calls), timeout=timeout)
        found = []
        for call in calls:
            try:
                found.append(ray.get(call, timeout=0.01))
            except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
                found.append(None)
        there = [shard for shard in found if shard is not None]
        inserted, sampled, held = self._tally(there).totals
        return {"shards": found, "inserted": inserted, "sampled": sampled, "steps": held}

    def __len__(self) -> int:
        """Steps stored, of the shards that answer."""
        return sum(shard["steps"] for shard in self.state()["shards"] if shard is not None)

    def __repr__(self) -> str:
        spec = self._spec
        return (
            f"Shards({len(self.handles)} shards, {self.capacity:,} rows, {self.lanes} lanes, {self.sampler}, "
            f"{spec.window}, storage={spec.storage!r}, durability={spec.durability!r}, {self.schema})"
        )

    # ---- persistence -----------------------------------------------------------------------------------------------

    def save(self, folder: str | Path, *, timeout: float = 60.0) -> None:
        """Save snapshots of all shards to a folder, in place of what was saved there before.

        Each shard is saved at its own instant. Until all are saved, the previous snapshots are valid. The folder must
        be on a file system that every node shares.

        Args:
            timeout: Seconds to wait for shards that are being restarted.

        Raises:
            StorageError: If one was not back by then. The previous snapshots stay valid.
        """
        place = checked_path("folder", folder).resolve()
        place.mkdir(parents=True, exist_ok=True)
        turn = 1 - _read(place)["turn"] if (place / _MANIFEST).exists() else 0
        self._save_shards(place / str(turn), timeout)
        about = {"format": _FORMAT, "version": 1, "turn": turn, "shards": len(self.handles)}
        tally = self._tally([shard for shard in self.state()["shards"] if shard is not None])
        inserted, sampled, _ = tally.totals
        about["tally"] = {"inserted": {"saved": inserted}, "sampled": {"saved": sampled}, "held": {}, "newest": 0}
        atomic_write(place / _MANIFEST, json.dumps(about).encode())

    def _save_shards(self, place: Path, timeout: float) -> None:
        """Snapshots of all shards; those that die meanwhile are asked again once they are back."""
        ray, left, until = import_ray(), dict(enumerate(self.handles)), time.monotonic() + timeout
        while left:
            calls = {
                index: handle.save.options(concurrency_group="control").remote(str(place / f"shard-{index}"))
                for index, handle in left.items()
            }
            for index, call in calls.items():
                try:
                    ray.get(call)
                    del left[index]
                except ray.exceptions.RayActorError:  # killed, or being restarted
                    if time.monotonic() > until:
                        rule, remedy = f"answer within {timeout:g} s", "Look at Shards.state()."
                        raise StorageError(f"shard {index}", rule, "nothing", remedy) from None
            if left:
                time.sleep(_AGAIN)

    @classmethod
    def load(cls, saved: str | Path, schema: Schema, capacity: int, **options: Any) -> Shards:
        """Shards restored from what ``save`` wrote to a folder.

        Args:
            options: As of new shards; as many lanes and shards as were saved.
        """
        place = checked_path("saved", saved).resolve()
        about = _read(place)
        if options.get("shards", 1) != about["shards"]:
            raise OptionError("shards", f"be the {about['shards']} that were saved", options.get("shards", 1))
        return cls(schema, capacity, **options, _source=place / str(about["turn"]), _tally=about["tally"])

    def close(self) -> None:
        """End the shards, if this object made them."""
        if not self._owner:
            return
        ray = import_ray()
        if ray.is_initialized():
            if self._spec.storage != "ram":
                calls = [handle.close.options(concurrency_group="control").remote() for handle in self.handles]
                ray.wait(calls, num_returns=len(calls), timeout=2.0)
            for handle in self.handles:
                ray.kill(handle)
        self._owner = False

    def __enter__(self) -> Shards:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_owner": False}

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _tally(self, states: list[dict[str, Any]]) -> Tally:
        tally = Tally()
        for state in states:
            tally.join(state["tally"])
        return tally

    def _all_here(self) -> bool:
        ray = import_ray()
        here = ray.get_runtime_context().get_node_id()
        return all(state is not None and state["node"] == here for state in self.state()["shards"])


def _constant(sampler: Sampler) -> Sampler:
    """A sampler that can be sent: the exponent of weights comes with every draw."""
    return replace(sampler, beta=0.0) if isinstance(sampler, Prioritized) else sampler


def _read(folder: Path) -> dict[str, Any]:
    path = folder / _MANIFEST
    try:
        about = json.loads(path.read_text())
        if is_old(about["format"]):
            raise SnapshotError(str(path), f"begin with the format {_FORMAT!r}", GOT, REMEDY)
        if about["format"] != _FORMAT or about["version"] != 1 or about["turn"] not in (0, 1):
            raise ValueError("another format")
        if type(about["shards"]) is not int or not isinstance(about["tally"], dict):
            raise ValueError("another format")
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, SnapshotError):
            raise
        raise SnapshotError(str(path), "tell of saved shards", error) from None
    return dict(about)
