"""Actor processes, which write to a memory in shared memory beside the learner.

Processes communicate by a few arrays in shared memory with one writer each: the learner's weights, with a version and a
checksum that detects torn reads, and its update count; every actor's steps, episodes and returns. There are no locks,
so a killed process leaves nothing locked.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing as mp
import os
import pickle
import signal
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from relive.agents.interface import Algorithm, Experience, Schedule, Weights
from relive.envs.checks import own_traceback
from relive.envs.dice import seeds
from relive.errors import OptionError, RunError
from relive.learn import kernels
from relive.memory import Memory, Shared
from relive.training.callbacks import RunState
from relive.training.collect import ActorTask, Collected, Going, act_and_append
from relive.training.environments import make_env
from relive.training.metrics import EpisodeReturns, reward_names
from relive.training.settings import RunConfig
from relive.training.sharded import RunMemory
from relive.training.trust import import_modules

__all__ = ["ActorProcesses"]

_NAP = 5e-4  # seconds that an idle process sleeps
_LOOK = 0.05  # seconds between checks for dead actors
_LEAD = 4  # updates, or rounds of all lanes, that actors may run ahead of the learner
_TRIES = 10  # restarts of an actor that has not taken a step
_STEPS, _EPISODES, _COLUMNS = 0, 1, 2


@final
class _Published:
    """Weights in shared memory: written by the learner, read by actors."""

    def __init__(self, weights: Weights) -> None:
        self._shapes = {name: (tuple(value.shape), value.dtype) for name, value in weights.tensors.items()}
        size = sum(value.numel() * value.element_size() for value in weights.tensors.values())
        self._data: Any = mp.get_context("spawn").RawArray(ctypes.c_uint8, max(size, 1))
        self._head: Any = mp.get_context("spawn").RawArray(ctypes.c_int64, 2)  # version, checksum

    def write(self, weights: Weights, number: int) -> None:
        """Publish weights as a numbered version, from 1 on."""
        parts = [
            value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy() for value in weights.tensors.values()
        ]
        data = np.concatenate(parts) if parts else np.zeros(0, np.uint8)
        self._head[0] = -number  # being written
        np.frombuffer(self._data, np.uint8)[: len(data)] = data
        self._head[1] = zlib.crc32(data.tobytes())
        self._head[0] = number

    @property
    def version(self) -> int:
        """The published version; negative while it is being written."""
        return int(self._head[0])

    def read(self) -> Weights | None:
        """The published weights; None if they are being written."""
        version, checksum = self._head[0], self._head[1]
        size = sum(_bytes(shape, dtype) for shape, dtype in self._shapes.values())
        data = np.frombuffer(self._data, np.uint8)[:size].copy()
        if version < 1 or self._head[0] != version or zlib.crc32(data.tobytes()) != checksum:
            return None
        tensors: dict[str, Tensor] = {}
        place = 0
        for name, (shape, dtype) in self._shapes.items():
            end = place + _bytes(shape, dtype)
            tensors[name] = torch.from_numpy(data[place:end].copy()).view(dtype).view(shape)
            place = end
        return Weights(int(version), tensors)


def _bytes(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    return int(np.prod(shape, dtype=np.int64)) * torch.empty(0, dtype=dtype).element_size()


@final
@dataclass
class _Board:
    """Counters shared by all processes."""

    published: _Published
    counters: Any
    """Steps, episodes and sums of returns of every actor, ``[actors, 2, columns]``: a row in force, one being made."""
    heads: Any
    """How many rows each actor has written; its parity is the place of the row in force."""
    learner: Any
    """Updates so far; 1 once all is over; 1 while the memory holds nothing to learn from."""
    actors: int
    names: tuple[str, ...]
    """Of returns, and the length."""

    def write(self, actor: int, row: Any) -> None:
        """Replace an actor's row at once, for whoever reads it and wherever the actor is killed."""
        head = self.heads[actor] + 1
        self._rows()[actor, head % 2] = row
        self.heads[actor] = head

    def read(self, actor: int) -> Any:
        """An actor's row: steps, episodes, and the sum of every return."""
        while True:
            head = self.heads[actor]
            row = self._rows()[actor, head % 2].copy()
            if self.heads[actor] == head:  # else its place may have been written to meanwhile
                return row

    def table(self) -> Any:
        """The rows of all actors."""
        return np.stack([self.read(actor) for actor in range(self.actors)])

    def _rows(self) -> Any:
        return np.frombuffer(self.counters, np.float64).reshape(self.actors, 2, _COLUMNS + len(self.names))

    @property
    def updates(self) -> int:
        """Updates so far."""
        return int(self.learner[0])

    @property
    def starved(self) -> bool:
        """Whether the learner waits for more steps although updates are due."""
        return bool(self.learner[2])

    @property
    def over(self) -> bool:
        """Whether actors should stop."""
        return bool(self.learner[1])


@final
@dataclass(frozen=True)
class _Task(ActorTask):
    """What an actor process is started with."""

    memory: str
    max_episodes: int | None
    quota: int
    schedule: Schedule
    first: tuple[int, int]
    """Steps and episodes that there were before all actors."""
    parent: int


@final
class ActorProcesses:
    """A collector whose actors are processes.

    Args:
        memory: A memory in shared storage, which the processes open by ``name``.
        state: The run's counters and learner.
    """

    def __init__(
        self, env: str, algorithm: Algorithm, run: RunConfig, memory: Experience, name: str, state: RunState
    ) -> None:
        if not isinstance(memory, Memory):
            remedy = "A rollout needs a single policy; actor processes act with stale ones."
            raise OptionError("actors", "be 0 for an algorithm that learns from rollouts", run.actors, remedy)
        self.obs: Mapping[str, Any] = {}
        self._env, self._algorithm, self._run, self._name = env, algorithm, run, name
        self._schedule = algorithm.schedule(run.num_envs)
        made = make_env(algorithm, env, 1, run.env_options)
        names = (*reward_names(made), "length")
        made.close()
        context = mp.get_context("spawn")
        self._board = _Board(
            published=_Published(state.learner.weights()),
            counters=context.RawArray(ctypes.c_double, run.actors * 2 * (_COLUMNS + len(names))),
            heads=context.RawArray(ctypes.c_int64, run.actors),
            learner=context.RawArray(ctypes.c_int64, 3),
            actors=run.actors,
            names=names,
        )
        self._versions, self._starts = 0, 0
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []
        self._deaths = [(0, -1.0)] * run.actors
        """How often each actor died in a row without a step, and the steps it had taken."""
        self._seen = self._board.table()
        self._looked = 0.0
        self._memory, self._state = memory, state

    def begin(self, seed: int) -> None:
        """Start all actors."""
        self._first, self._seed = (self._state.steps, self._state.episodes), seed
        self.publish(self._state.learner.weights(), self._state.updates)
        for index in range(self._run.actors):
            process, pipe = self._start(index)
            self._processes.append(process)
            self._pipes.append(pipe)

    def resume(self, memory: RunMemory, going: Going, seed: int) -> None:  # noqa: ARG002 - actor processes start afresh
        """Resume with a memory; environments are reset."""
        assert isinstance(memory, Memory)
        self._memory = memory
        self.begin(seed)

    def collect(self, steps: int) -> Collected:  # noqa: ARG002
        """What actors did since the last call; sleeps briefly if nothing."""
        now = self._board.table()
        fresh = now - self._seen
        if time.monotonic() - self._looked > _LOOK:
            self._look()
        if not fresh[:, _STEPS].any():
            self._board.learner[2] = self._memory.ready < 1
            time.sleep(_NAP)
            return Collected(0, 0, {})
        self._seen = now
        total = fresh.sum(axis=0)
        episodes = int(total[_EPISODES])
        returns = {}
        if episodes:  # their mean, as often as there were episodes
            means = total[_COLUMNS:] / episodes
            returns = {name: np.full(episodes, mean) for name, mean in zip(self._board.names, means, strict=True)}
        return Collected(int(total[_STEPS]), episodes, returns)

    def publish(self, weights: Weights, updates: int) -> None:
        """Write weights where actors find them."""
        self._versions += 1
        self._board.published.write(weights, self._versions)
        self._board.learner[0] = updates

    def state(self) -> Going:
        """Nothing: actor processes start afresh."""
        return Going({}, None, {})

    def metrics(self) -> dict[str, float]:
        """Nothing."""
        return {}

    def close(self) -> None:
        """End all actors."""
        self._board.learner[1] = 1
        deadline = time.monotonic() + 5
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in self._pipes:
            pipe.close()
        self._memory.close()

    def _start(self, index: int) -> tuple[Any, Connection]:
        run, share = self._run, self._run.num_envs // self._run.actors
        left = run.steps - self._first[0]
        quota = -(-left // run.num_envs) * share
        self._starts += 1
        task = _Task(
            index=index,
            env=self._env,
            algorithm=self._algorithm,
            run=run,
            memory=self._name,
            lanes=(index * share, (index + 1) * share),
            max_episodes=self._memory.max_episodes,
            quota=quota,
            schedule=self._schedule,
            first=self._first,
            seed=seeds(self._seed, self._starts)[-1],
            parent=os.getpid(),
        )
        context = mp.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(task, self._board, theirs), daemon=True, name=f"actor {index}")
        try:
            process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            remedy = "Give parts of your own by name (package.module:function)."
            rule = "be 0 for settings that cannot be sent to another process"
            raise OptionError("actors", rule, error, remedy) from None
        finally:
            theirs.close()
        return process, ours

    def _look(self) -> None:
        """Restart dead actors; fail if one cannot start."""
        self._looked = time.monotonic()
        for index, process in enumerate(self._processes):
            if process.is_alive() or process.exitcode == 0:
                continue
            said = ""
            with contextlib.suppress(EOFError, OSError):
                said = self._pipes[index].recv() if self._pipes[index].poll() else ""
            count, at = self._deaths[index]
            steps = float(self._board.read(index)[_STEPS])
            self._deaths[index] = (count + 1 if steps == at else 1, steps)
            if said or self._deaths[index][0] > _TRIES:
                found = said or f"exit code {process.exitcode}, {_TRIES} times without a step"
                raise RunError(f"actor {index}", "go on", found)
            self._pipes[index].close()
            self._processes[index], self._pipes[index] = self._start(index)


def _work(task: _Task, board: _Board, pipe: Connection) -> None:
    """The main function of an actor process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it hears that, and says when it is over
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    try:
        _act(task, board)
    except Exception:
        pipe.send(own_traceback())
        raise


def _act(task: _Task, board: _Board) -> None:
    import_modules(task.run.imports)
    kernels.use(task.run.kernels)
    share = task.lanes[1] - task.lanes[0]
    lanes = np.arange(*task.lanes)
    env = make_env(task.algorithm, task.env, share, task.run.env_options)
    memory = Memory.open(Shared(task.memory), max_episodes=task.max_episodes)
    env_seed, learner_seed, actor_seed = seeds(task.seed, 3)
    learner = task.algorithm.learner(env, device="cpu", seed=learner_seed)
    actor = learner.actor(share, explore=True, seed=actor_seed)
    obs, returns = env.reset(seed=env_seed), EpisodeReturns(env)
    mine, version = board.read(task.index), 0
    while mine[_STEPS] < task.quota and not board.over and os.getppid() == task.parent:
        if board.published.version > version:
            weights = board.published.read()
            if weights is not None:
                actor.load(weights)
                version = weights.version
        done = board.table()[:, :_COLUMNS].sum(axis=0)
        steps, episodes = (first + int(count) for first, count in zip(task.first, done, strict=True))
        if _ahead(task, board, steps, episodes):
            time.sleep(_NAP)
            continue
        step = act_and_append(env, actor, memory, obs, steps, lanes)
        obs = step.obs
        ended = returns.add(step)
        for place, name in enumerate(board.names):
            mine[_COLUMNS + place] += ended[name].sum() if ended else 0.0
        mine[_EPISODES] += np.count_nonzero(step.ended)
        mine[_STEPS] += share
        board.write(task.index, mine)
    env.close()
    memory.close()


def _ahead(task: _Task, board: _Board, steps: int, episodes: int) -> bool:
    """Whether actors are too far ahead of the learner."""
    due = task.schedule.updates_due(steps, episodes)
    lead = max(_LEAD, due - task.schedule.updates_due(steps - _LEAD * task.run.num_envs, episodes - _LEAD))
    return due - board.updates > lead and not board.starved
