"""Environments in subprocesses."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, final

import cloudpickle
import numpy as np

from relive.envs.adapters.single_env import SingleEnv, is_number, stack
from relive.envs.adapters.sync import action_rules, check_actions, check_alike, check_started, final_names, gather
from relive.envs.checks import own_traceback
from relive.envs.dice import seeds_for
from relive.envs.interface import Step, as_actions, schema_of
from relive.errors import EnvError, OptionError
from relive.types import Actions, Array

__all__ = ["Pool"]

_REMEDY = "reset() starts it again; memory.cut() ends the episodes that were running."
_GRACE = 2.0  # seconds for processes to end by themselves


@final
class Pool:
    """Vectorised environments in several subprocesses.

    If a process dies or an environment raises, the call raises ``EnvError`` and names it; nothing hangs. ``reset``
    restarts dead processes; call the memory's ``cut()`` then.

    Args:
        makers: Called in the subprocesses, one for each environment.
        processes: Number of subprocesses, at most one for each environment.
        patience: Timeout of a process in seconds; None: none.

    >>> pool = Pool([MakeGymnasium("CartPole-v1", {})] * 8, processes=2)  # doctest: +SKIP
    """

    def __init__(
        self, makers: Sequence[Callable[[], SingleEnv]], *, processes: int | None = None, patience: float | None = None
    ) -> None:
        if not makers:
            raise OptionError("makers", "be at least one", "none")
        count = len(makers) if processes is None else processes
        if not isinstance(count, (int, np.integer)) or isinstance(count, bool) or not 1 <= count <= len(makers):
            raise OptionError("processes", f"be from 1 to the number of environments, {len(makers)}", repr(processes))
        self._patience = patience
        self._closed = self._broken = False
        shares = [share.tolist() for share in np.array_split(np.arange(len(makers)), count)]
        self._workers = [_Worker(share, [makers[index] for index in share]) for share in shares]
        self.num_envs = len(makers)
        self._seen: dict[str, Array] = {}
        try:
            described = self._all("describe", [None] * count)
            check_alike(described)
        except BaseException:
            self.close()
            raise
        first = described[0]
        self.name = first.name
        self.groups = first.groups
        self.state_space = first.state_space
        self.shared_reward = first.shared_reward
        self.max_episode_steps = first.max_episode_steps
        self.report_names: tuple[str, ...] = first.report_names
        self.schema = schema_of(first.groups, first.state_space, shared_reward=first.shared_reward)
        self._finals = final_names(self.schema)
        self._rules = action_rules(first.groups, self.num_envs)

    def reset(self, seed: int | Sequence[int] | None = None) -> dict[str, Array]:
        """Reset all environments, restarting dead processes, and return their observations."""
        self._check_open()
        each: list[int | None] = [None] * self.num_envs
        if seed is not None:
            each = list(seeds_for(seed, self.num_envs))
        restarted = [worker for worker in self._workers if self._broken or not worker.alive()]
        _stop(restarted)
        for worker in restarted:
            worker.start()
        self._broken = False
        self._seen = stack(self._all("reset", [[each[index] for index in worker.share] for worker in self._workers]))
        return dict(self._seen)

    def step(self, action: Actions) -> Step:
        """Step all environments; those whose episode ends are reset."""
        self._check_open()
        check_started(self._seen)
        if self._broken:
            raise EnvError("reset", "be called after a process died or failed", "step")
        given = check_actions(self._rules, as_actions(self.groups, action))
        parts = [
            [{key: value[index] for key, value in given.items()} for index in worker.share] for worker in self._workers
        ]
        both = self._all("step", parts)
        begun = {index: fresh for index, (_, fresh) in enumerate(both) if fresh is not None}
        step = gather(self._seen, given, [one for one, _ in both], begun, self._finals)
        self._seen = dict(step.obs)
        return step

    def render(self, index: int = 0) -> Array:
        """An image of one environment, RGB bytes."""
        self._check_open()
        if self._broken:
            raise EnvError("reset", "be called after a process died or failed", "render")
        for worker in self._workers:
            if index in worker.share:
                worker.send("render", worker.share.index(index))
                try:
                    return np.asarray(worker.receive(self._patience))
                except EnvError:
                    self._broken = not worker.answered
                    raise
        raise OptionError("index", f"be from 0 to {self.num_envs - 1}", index)

    def close(self) -> None:
        """End all processes."""
        if not self._closed:
            self._closed = True
            _stop(self._workers)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise EnvError("pool", "be open", "a closed one", "Make a new one.")

    def _all(self, what: str, each: Sequence[Any]) -> list[Any]:
        """Send to all workers, then receive from all."""
        try:
            for worker, argument in zip(self._workers, each, strict=True):
                worker.send(what, argument)
            return [part for worker in self._workers for part in worker.receive(self._patience)]
        except BaseException:
            self._broken = True
            raise


@final
class _Described:
    """The description of an environment, without the environment."""

    def __init__(self, one: SingleEnv) -> None:
        self.name = one.name
        self.groups = one.groups
        self.state_space = one.state_space
        self.shared_reward = one.shared_reward
        self.max_episode_steps = one.max_episode_steps
        self.report_names: tuple[str, ...] = getattr(one, "report_names", ())


@final
class _Worker:
    """One process and the environments in it."""

    def __init__(self, share: list[int], makers: list[Callable[[], SingleEnv]]) -> None:
        self.share = share
        self._makers = cloudpickle.dumps(makers)
        self._served = False
        self.answered = False
        """Whether the process reported the last failure itself."""
        self.start()

    def start(self) -> None:
        # Spawned: a fork may inherit locks that other threads held.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._makers), daemon=True)
        self._process.start()
        theirs.close()

    def alive(self) -> bool:
        return self._process.is_alive()

    def send(self, what: str, argument: Any) -> None:
        with contextlib.suppress(OSError):  # reported by receive
            self._pipe.send((what, argument))

    def receive(self, patience: float | None) -> Any:
        self.answered = False
        remedy = _REMEDY if self._served else ""
        try:
            if not self._pipe.poll(patience):
                raise EnvError(self._names(), f"answer within {patience:g} seconds", "nothing", remedy)
            fine, answer = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(_GRACE)
            raise EnvError(self._names(), "stay alive", f"exit code {self._process.exitcode}", remedy) from None
        self.answered = True
        if not fine:
            raise EnvError(self._names(), "not raise", answer, remedy)
        self._served = True
        return answer

    def _names(self) -> str:
        first, last = self.share[0], self.share[-1]
        which = f"environment {first}" if first == last else f"environments {first} to {last}"
        return f"the process of {which}"

    def end(self, deadline: float) -> None:
        """Join the process; kill it after the deadline."""
        self._process.join(max(0.0, deadline - time.monotonic()))
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._pipe.close()


def _stop(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.send("close", None)
    deadline = time.monotonic() + _GRACE
    for worker in workers:
        worker.end(deadline)


def _serve(pipe: Connection, makers: bytes) -> None:
    """Serve requests until a close request or the end of the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which closes this process
    ones: list[SingleEnv] = []
    made = False
    while True:
        try:
            what, argument = pipe.recv()
        except (EOFError, OSError):
            break
        if what == "close":
            break
        try:
            if not made:
                ones = [make() for make in cloudpickle.loads(makers)]
                made = True
            answer = ForkingPickler.dumps((True, _answer(ones, what, argument)))
        except Exception:
            answer = ForkingPickler.dumps((False, own_traceback()))
        try:
            pipe.send_bytes(answer)
        except OSError:
            break
    for one in ones:
        with contextlib.suppress(Exception):
            one.close()


def _answer(ones: list[SingleEnv], what: str, argument: Any) -> Any:
    if what == "describe":
        return [_Described(one) for one in ones]
    if what == "reset":
        return [one.reset(seed) for one, seed in zip(ones, argument, strict=True)]
    if what == "render":
        return ones[argument].render()
    both = []
    for one, action in zip(ones, argument, strict=True):
        outcome = one.step(action)
        info = {key: value for key, value in outcome.info.items() if is_number(value)}  # others may not be picklable
        ended = outcome.terminated or outcome.truncated
        both.append((outcome._replace(info=info), one.reset() if ended else None))
    return both
