"""Actors on a Ray cluster, beside the learner.

Actors write to shards. Everything else is one call to each actor every few hundredths of a second: it sends the newest
weights and the actor's step budget, and returns what the actor did.
"""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from relive import run_files
from relive.agents.interface import Algorithm, Weights
from relive.distributed import Shards
from relive.distributed.ray_start import import_ray
from relive.envs.dice import seeds
from relive.errors import RunError
from relive.learn import kernels
from relive.training.callbacks import RunState
from relive.training.collect import ActorTask, Collected, Going, act_and_append
from relive.training.environments import make_env
from relive.training.metrics import EpisodeReturns, reward_names
from relive.training.settings import RunConfig
from relive.training.sharded import VERSION_FIELD, RunMemory, ShardedMemory
from relive.training.trust import import_modules

__all__ = ["ClusterActors"]

_EXCHANGE = 0.03  # seconds between two calls to an actor, at least
_EXCHANGE_SHARE = 3e-3  # seconds more for each actor, so that calls cost the learner a tenth of its time at most
_AWAY = 60.0  # seconds after which an actor that does not answer is replaced
_STARTING = 600.0  # seconds that one may need to start, on a busy machine
_NAP = 1e-3
_ROUNDS = 2  # steps of all environments that actors may be ahead of the learner, at least
_AHEAD = 2.0  # calls' worth of steps that they may be ahead, by how fast they were lately
_TRIES = 10  # times that an actor is started again without having taken a step
_BLOCK, _UNACKED = 4, 8
_GROUPS = {"acting": 1, "control": 1}


@final
class _RemoteActor:
    """Environments and an actor in a process of the cluster: one thread acts, another answers the learner."""

    def __init__(self, task: ActorTask, shards: Shards) -> None:
        torch.set_num_threads(1)
        import_modules(task.run.imports)
        kernels.use(task.run.kernels)
        self._task, self._shards = task, shards
        self._lock = threading.Lock()
        self._weights: Weights | None = None
        self._newest, self._steps_of_all, self._budget, self._over = 0, 0, 0, False
        self._counts: dict[str, float] = {"steps": 0, "episodes": 0, "version": 0}

    def act(self) -> str:
        """Act until the run ends; returns the error, if any."""
        try:
            self._act()
        except Exception:
            return traceback.format_exc()
        return ""

    def exchange(
        self, weights: bytes | None, version: int, newest: int, steps: int, budget: int, over: bool
    ) -> dict[str, float]:
        """Set weights and the step budget; returns the actor's totals."""
        with self._lock:
            if weights is not None:
                self._weights = Weights(version, load_tensors(weights))
            self._newest, self._steps_of_all, self._budget, self._over = newest, steps, budget, over
            return dict(self._counts)

    def _act(self) -> None:
        task, first, last = self._task, *self._task.lanes
        share = last - first
        env = make_env(task.algorithm, task.env, share, task.run.env_options)
        env_seed, learner_seed, actor_seed = seeds(task.seed, 3)
        learner = task.algorithm.learner(env, device="cpu", seed=learner_seed)
        actor = learner.actor(share, explore=True, seed=actor_seed)
        names = (*reward_names(env), "length")
        obs, returns = env.reset(seed=env_seed), EpisodeReturns(env)
        version, loaded = 0, False
        with self._shards.writer(np.arange(first, last), block=_BLOCK, unacked=_UNACKED) as writer:
            rows = _Versioned(writer, first)
            while not self._over:
                with self._lock:
                    weights, self._weights = self._weights, None
                    steps, newest = self._steps_of_all, max(self._newest, writer.tally.newest)
                    go = self._budget > 0
                if weights is not None:
                    actor.load(weights)
                    version, loaded = weights.version, True
                old = 0 < task.run.max_age < newest - version
                if not loaded or old or not go:
                    time.sleep(_NAP)
                    continue
                rows.version = version
                step = act_and_append(env, actor, rows, obs, steps)  # type: ignore[arg-type]
                obs, ended = step.obs, returns.add(step)
                with self._lock:
                    counts = self._counts
                    for name in names:
                        counts[name] = counts.get(name, 0.0) + (float(ended[name].sum()) if ended else 0.0)
                    counts["episodes"] += int(np.count_nonzero(step.ended))
                    counts["steps"] += share
                    counts["version"] = version
                    self._budget -= share
                    self._steps_of_all += share
        env.close()


@final
class _Versioned:
    """A writer that adds the version of the weights to every row."""

    def __init__(self, writer: Any, first: int) -> None:
        self._writer, self._first, self.version = writer, first, 0

    def append(self, /, *, lanes: Any = None, **row: Any) -> None:
        """Append a step of all environments, or of some."""
        count = len(self._writer.lanes) if lanes is None else len(np.atleast_1d(lanes))
        row[VERSION_FIELD] = np.full(count, self.version, np.int64)
        self._writer.append(lanes=None if lanes is None else np.asarray(lanes) + self._first, **row)


@final
@dataclass
class _Seat:
    """The learner's record of an actor."""

    handle: Any = None
    acting: Any = None
    call: Any = None
    asked: float = 0.0
    version: int = -1
    counts: dict[str, float] | None = None
    deaths: int = 0


@final
class ClusterActors:
    """A collector whose actors are on a cluster and write to shards."""

    def __init__(self, env: str, algorithm: Algorithm, run: RunConfig, memory: ShardedMemory, state: RunState) -> None:
        self.obs: Mapping[str, Any] = {}
        self._env, self._algorithm, self._run, self._memory, self._state = env, algorithm, run, memory, state
        self._schedule = algorithm.schedule(run.num_envs)
        self._seats = [_Seat() for _ in range(run.actors)]
        self._every = max(_EXCHANGE, run.actors * _EXCHANGE_SHARE)
        self._rate, self._recent, self._noted = 0.0, 0, time.monotonic()
        self._starts, self._versions, self._updates = 0, 0, 0
        self._weights: tuple[int, Weights] | None = None
        self._put: tuple[int, Any] | None = None
        self._lost = {"actors": 0, "shards": 0, "rows": 0}

    def begin(self, seed: int) -> None:
        """Start all actors."""
        self._seed = seed
        self.publish(self._state.learner.weights(), self._state.updates)
        for index in range(self._run.actors):
            self._start(index)

    def resume(self, memory: RunMemory, going: Going, seed: int) -> None:  # noqa: ARG002 - remote actors start afresh
        """Resume with a memory; environments are reset."""
        assert isinstance(memory, ShardedMemory)
        self._memory = memory
        self.begin(seed)

    def collect(self, steps: int) -> Collected:
        """What actors did since the last call; sleeps briefly if nothing."""
        done, episodes, returns = 0, 0, {}  # type: ignore[var-annotated]
        for index, seat in enumerate(self._seats):
            counts = self._answer(index, seat)
            if counts is None:
                continue
            before = seat.counts or {}
            fresh = {name: value - before.get(name, 0.0) for name, value in counts.items()}
            seat.counts = counts
            if fresh["steps"]:
                seat.deaths = 0
            done, ended = done + int(fresh["steps"]), int(fresh["episodes"])
            if ended:
                episodes += ended
                for name in fresh.keys() - {"steps", "episodes", "version"}:
                    returns.setdefault(name, []).append(np.full(ended, fresh[name] / ended))
        for shard, held, kept in self._memory.take_restarts():
            self._lost["shards"] += 1
            self._say(
                "shard", f"shard {shard} was lost and began again with {kept:,} of {held:,} steps", max(held - kept, 0)
            )
        self._note_rate(done)
        self._exchange(steps + done)
        if not done:
            time.sleep(_NAP)
        return Collected(done, episodes, {name: np.concatenate(parts) for name, parts in returns.items()})

    def publish(self, weights: Weights, updates: int) -> None:
        """Send weights to actors with their next calls."""
        self._updates = updates
        self._versions += 1
        self._weights = (self._versions, weights)
        self._memory.newest_version = self._versions

    def metrics(self) -> dict[str, float]:
        """Policy staleness, and what was lost."""
        versions = [seat.counts["version"] for seat in self._seats if seat.counts]
        found = {f"cluster/lost_{what}": float(count) for what, count in self._lost.items()}
        if versions:
            found["cluster/actor_lag"] = float(self._versions - np.mean(versions))
        return {**found, **self._memory.take_metrics()}

    def state(self) -> Going:
        """Nothing: remote actors start afresh."""
        return Going({}, None, {})

    def close(self) -> None:
        """Stop all actors, once their rows have been stored, and the shards."""
        ray = import_ray()
        if ray.is_initialized():
            acting = []
            for seat in self._seats:
                if seat.handle is not None:
                    self._call(seat, self._state.steps, over=True)
                    acting.append(seat.acting)
            if acting:
                ray.wait(acting, num_returns=len(acting), timeout=5.0)
            for seat in self._seats:
                if seat.handle is not None:
                    ray.kill(seat.handle)
        self._memory.close()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _start(self, index: int) -> None:
        ray, run = import_ray(), self._run
        share = run.num_envs // run.actors
        self._starts += 1
        lanes = (index * share, (index + 1) * share)
        task = ActorTask(index, self._env, self._algorithm, run, lanes, seeds(self._seed, self._starts)[-1])
        made = ray.remote(concurrency_groups=_GROUPS)(_RemoteActor)
        seat = self._seats[index]
        options = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
        seat.handle = made.options(**options).remote(task, self._memory.shards)
        seat.acting = seat.handle.act.options(concurrency_group="acting").remote()
        seat.call, seat.counts, seat.version, seat.asked = None, None, -1, 0.0

    def _answer(self, index: int, seat: _Seat) -> dict[str, float] | None:
        """An actor's answer, if it has arrived; a dead actor is restarted."""
        ray = import_ray()
        if seat.call is None:
            return None
        done, _ = ray.wait([seat.call], timeout=0)
        if not done:
            patience = _STARTING if seat.counts is None else _AWAY
            if time.monotonic() - seat.asked > patience:
                ray.kill(seat.handle)
                self._replace(index, seat, f"did not answer for {patience:.0f} s")
            return None
        call, seat.call = seat.call, None
        try:
            found = dict(ray.get(call))
        except ray.exceptions.RayActorError as error:
            self._replace(index, seat, str(error).partition("\n")[0])
            return None
        over, _ = ray.wait([seat.acting], timeout=0)
        if over:
            said = ray.get(seat.acting)
            if said:
                raise RunError(f"actor {index}", "go on", said)
        return found

    def _replace(self, index: int, seat: _Seat, why: str) -> None:
        seat.deaths += 1
        if seat.deaths > _TRIES:
            raise RunError(f"actor {index}", "go on", f"{why}, {_TRIES} times without a step")
        self._lost["actors"] += 1
        self._say("actor", f"actor {index} was lost and started again: {why}")
        self._start(index)

    def _note_rate(self, done: int) -> None:
        """Update the recent steps per second."""
        self._recent += done
        passed = time.monotonic() - self._noted
        if passed > 4 * self._every:
            self._rate, self._recent, self._noted = self._recent / passed, 0, time.monotonic()

    def _exchange(self, steps: int) -> None:
        now = time.monotonic()
        for seat in self._seats:
            if seat.call is None and now - seat.asked > self._every:
                self._call(seat, steps)

    def _call(self, seat: _Seat, steps: int, *, over: bool = False) -> None:
        assert self._weights is not None
        version, weights = self._weights
        blob = None
        if seat.version < version:
            if self._put is None or self._put[0] < version:
                tensors = {name: value.detach().cpu().contiguous() for name, value in weights.tensors.items()}
                self._put = (version, import_ray().put(save_tensors(tensors)))
            blob, seat.version = self._put[1], version
        exchange = seat.handle.exchange.options(concurrency_group="control")
        seat.call = exchange.remote(blob, version, self._versions, steps, self._budget(steps), over)
        seat.asked = time.monotonic()

    def _budget(self, steps: int) -> int:
        """The steps that one actor may take until the next call, so that it does not run ahead of the learner."""
        run, left = self._run, self._run.steps - steps
        due = self._schedule.updates_due(steps, self._state.episodes)
        slack = max(_ROUNDS * run.num_envs, int(_AHEAD * self._every * self._rate))
        behind = due - self._updates
        if behind > 0 and self._memory.ready:
            every = self._schedule.every if self._schedule.unit == "steps" else run.num_envs
            slack -= int(behind * every)
        return max(0, -(-min(slack, left) // run.actors)) if left > 0 else 0

    def _say(self, what: str, text: str, rows: int = 0) -> None:
        """Log what was lost."""
        self._lost["rows"] += rows
        line = {"time": time.time(), "step": self._state.steps, "what": what, "rows": rows, "text": text}
        run_files.append(self._state.folder, "events.jsonl", json.dumps(line) + "\n")
