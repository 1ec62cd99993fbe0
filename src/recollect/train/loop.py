"""The loop of off-policy algorithms: collect from vectorised environments, update on a schedule, evaluate, save."""

from __future__ import annotations

import contextlib
import ctypes
import math
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import torch

from recollect import envs
from recollect.agents.interface import Algorithm
from recollect.envs.checks import check_finite, guarded
from recollect.envs.dice import seeds
from recollect.envs.film import save_film
from recollect.errors import OptionError, RunError
from recollect.learn import kernels
from recollect.train import checkpoint
from recollect.train.evaluate import evaluate, record_video, reset_mask
from recollect.train.files import own
from recollect.train.records import Records, draw_curve
from recollect.train.settings import (
    RunConfig,
    as_data,
    device_is_here,
    immutable_settings,
    read_config,
    read_run,
    resolved,
    with_networks,
    write_config,
)
from recollect.train.trust import check_trust

__all__ = ["Progress", "Result", "new_folder", "resume", "run"]

_PATIENCE = 1000  # updates that may be due while the memory has nothing to learn from

Progress = Callable[[int, int, Mapping[str, float]], None]
"""Called with steps taken, steps in all, and the newest metrics."""


@final
@dataclass(frozen=True)
class Result:
    """How a run ended."""

    folder: Path
    steps: int
    metrics: dict[str, float]
    """Of the last evaluation."""
    signal: int = 0
    """What ended it before its time; 0: nothing did."""

    @property
    def interrupted(self) -> bool:
        """Whether it ended before its time."""
        return self.signal != 0


def run(
    algorithm: Algorithm,
    env: str,
    *,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    config: RunConfig | None = None,
    networks: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Result:
    """Train an algorithm on an environment. Ctrl-C and SIGTERM end it with a checkpoint.

    Args:
        env: A name that ``recollect.envs.make`` knows.
        folder: Where everything is kept; by default ``runs/<algorithm>-<environment>-<seed>-<time>``. It may hold a run
            of the same settings that was ended before its first checkpoint.
        networks: Parts of one's own by the names of the algorithm's settings, such as ``{"encoder": function}``.
        settings: Of the run, by the names of ``RunConfig``.

    >>> from recollect.agents.maddpg import MADDPGConfig
    >>> run(MADDPGConfig(), env="simple_spread", steps=1_000_000, seed=1)  # doctest: +SKIP
    """
    algorithm = with_networks(algorithm, networks)
    chosen = resolved(algorithm, replace(config or RunConfig(), **settings))
    folder = new_folder(algorithm, env, str(chosen.seed)) if folder is None else Path(folder)
    if checkpoint.exists(folder):
        raise RunError("folder", "not hold a run already", str(folder), "Resume it, or choose another folder.")
    begun = folder / "config.toml"
    if begun.exists() and not same_settings(read_config(begun), (env, algorithm, chosen)):
        remedy = "It has no checkpoint to resume: remove it."
        raise RunError("folder", "not hold a run of other settings", str(folder), remedy)
    going = _Run(env, algorithm, chosen, folder, progress)  # before anything is written: it may be refused
    folder.mkdir(parents=True, exist_ok=True)
    write_config(folder / "config.toml", env, algorithm, chosen)
    return going.go()


def same_settings(one: tuple[str, Algorithm, RunConfig], two: tuple[str, Algorithm, RunConfig]) -> bool:
    """Whether runs are of the same environment, algorithm and settings."""
    first, second = ((env, algorithm.name, as_data(algorithm), config) for env, algorithm, config in (one, two))
    return first == second


def new_folder(algorithm: Algorithm, env: str, what: str) -> Path:
    """A folder under ``runs`` that nothing is kept in yet."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in env)
    return Path("runs") / f"{algorithm.name}-{safe}-{what}-{time.strftime('%Y%m%d-%H%M%S')}"


def resume(
    folder: str | Path,
    *,
    progress: Progress | None = None,
    steps: int | None = None,
    device: str | None = None,
    networks: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Result:
    """Go on with a run from its checkpoint, as if it had not stopped.

    Args:
        steps: Another number of steps in all.
        device: Another device to learn and act on.
        networks: Parts of one's own that were given in Python and have no name to import them by.
        trust: Whether to import modules that the run's settings name.
    """
    folder = Path(folder)
    env, algorithm, config = read_run(folder)
    algorithm = with_networks(algorithm, networks)
    given = {key: value for key, value in as_data(algorithm).items() if key not in (networks or {})}
    check_trust(env, given, folder / "config.toml", trust=trust)
    if steps is not None:
        taken = checkpoint.load_checkpoint(folder)["steps"]
        if steps < taken:
            raise OptionError("steps", f"be at least the {taken} that were taken", steps)
        config = replace(config, steps=steps)
    going = _Run(env, algorithm, replace(config, device=device or config.device), folder, progress)
    going.load()
    write_config(folder / "config.toml", env, algorithm, going.config)
    return going.go()


@final
class _Run:
    """One run while it goes."""

    def __init__(
        self, name: str, algorithm: Algorithm, config: RunConfig, folder: Path, progress: Progress | None
    ) -> None:
        if not device_is_here(config.device):
            remedy = "Take another (--device cpu)."
            raise OptionError("device", "be one that torch finds here", repr(config.device), remedy)
        torch.set_num_threads(config.threads)
        kernels.use(config.kernels)
        _keep_freed_memory()
        self._name, self._algorithm, self.config, self._folder = name, algorithm, config, folder
        self._progress = progress
        env_seed, learner_seed, memory_seed, self._eval_seed, actor_seed = seeds(config.seed, 5)
        self._env_seed = env_seed
        self._env = envs.make(name, num_envs=config.num_envs, **config.env_options)
        self._eval_env = envs.make(name, num_envs=config.eval_episodes, **config.env_options)
        self._memory = algorithm.memory(self._env, memory_seed)
        self._learner = algorithm.learner(self._env, self._memory, device=config.device, seed=learner_seed)
        self._actor = self._learner.actor(config.num_envs, explore=True, seed=actor_seed)
        self._records: Records | None = None
        self._seen: dict[str, Any] = {}
        self._steps = self._updates = self._episodes = 0
        self._metrics: dict[str, float] = {}
        self._train_metrics: Mapping[str, float] = {}
        self._evaluated = 0
        self._stopped: list[int] = []

    def load(self) -> None:
        """Go on from the checkpoint in the folder."""
        counters = checkpoint.load_checkpoint(self._folder)
        checkpoint.check_settings(self._folder, immutable_settings(self._name, self._algorithm, self.config))
        learner, actor, env = checkpoint.load_state(self._folder)
        with checkpoint.fitting(self._folder):
            self._learner.load_state_dict(learner)
            self._actor.load_state_dict(actor)
            self._actor.load(self._learner.weights())
        self._memory = self._learner.memory = checkpoint.load_memory(self._folder)
        self._steps, self._updates, self._episodes = counters["steps"], counters["updates"], counters["episodes"]
        self._metrics, self._evaluated = counters["metrics"], counters["evaluated"]
        self._train_metrics = counters["train_metrics"]
        if env is not None:
            with checkpoint.fitting(self._folder):
                self._seen = self._env.restore(env)  # type: ignore[attr-defined]
        else:
            self._seen = self._env.reset(seed=(self._env_seed + self._steps) % 2**63)
            self._memory.cut()
            self._actor.reset(np.ones(self.config.num_envs, bool))
        self._records = Records(self._folder, after=self._steps)

    def go(self) -> Result:
        """Until all steps are taken, or someone interrupts."""
        config = self.config
        if not self._seen:
            self._seen = guarded(self._env.name, "reset", lambda: self._env.reset(seed=self._env_seed))
            check_finite(self._env, self._seen, self._steps)
        self._records = self._records or Records(self._folder)
        try:
            with _interruptible() as stopped:
                self._stopped = stopped
                while self._steps < config.steps and not stopped:
                    self._collect()
                    self._learn()
                    if self._due(config.eval_every):
                        self._evaluate()
                    if config.save_every and self._due(config.save_every) and self._steps < config.steps:
                        self._save()
                done = self._steps >= config.steps
                if done and self._evaluated != self._steps:
                    self._evaluate()
                    done = not stopped
                self._save()
                if done:
                    self._finish()
            return Result(self._folder, self._steps, self._metrics, 0 if done else stopped[0])
        finally:
            self._records.close()
            self._env.close()
            self._eval_env.close()

    def _due(self, every: int) -> bool:
        """Whether a multiple of some steps was passed just now."""
        return self._steps // every > (self._steps - self.config.num_envs) // every

    def _collect(self) -> None:
        action, extras = self._actor.act(self._seen, self._steps)
        step = guarded(self._env.name, "step", lambda: self._env.step(action))
        check_finite(self._env, step.row, self._steps)
        check_finite(self._env, step.seen, self._steps)
        lanes = step.row.get("lanes")
        if lanes is not None:
            extras = {key: values[lanes] for key, values in extras.items()}
        self._memory.append(**step.row, **extras)
        mask = reset_mask(step)
        if mask.any():
            self._actor.reset(mask)
        if step.ended.any():
            fresh = int(step.ended.sum())
            self._episodes += fresh
            self._algorithm.evict(self._memory, self._episodes, fresh)
        self._seen = step.seen
        self._steps += self.config.num_envs
        if self._progress is not None:
            self._progress(self._steps, self.config.steps, self._metrics)

    def _learn(self) -> None:
        due = self._algorithm.updates_due(self._steps, self._episodes)
        if self._updates >= due:
            return
        if self._memory.ready < 1:
            if due > self._updates + _PATIENCE:
                remedy = "Keep more (--buffer-size, --capacity), or set a limit of steps where episodes have none."
                raise RunError("memory", "hold something to learn from", "nothing that is whole", remedy)
            return
        while self._updates < due:
            metrics = self._learner.learn()
            self._updates += 1
            if not all(map(math.isfinite, metrics.values())):
                broken = ", ".join(name for name, value in metrics.items() if not math.isfinite(value))
                whole = "The last checkpoint is whole; l" if checkpoint.exists(self._folder) else "L"
                remedy = f"{whole}ower the learning rates, or clip gradients."
                raise RunError(broken, f"stay finite (update {self._updates})", "NaN or infinity", remedy)
            self._train_metrics = metrics
        self._actor.load(self._learner.weights())

    def _evaluate(self) -> None:
        longest = self._eval_env.limit or self.config.eval_max_steps
        found = evaluate(self._learner, self._eval_env, self._eval_seed, longest, going_on=lambda: not self._stopped)
        if found is None:
            return
        self._metrics = {**found, **self._train_metrics}
        self._evaluated = self._steps
        if self._progress is not None:
            self._progress(self._steps, self.config.steps, self._metrics)
        assert self._records is not None
        self._records.write(self._steps, {**self._metrics, "updates": self._updates})
        draw_curve(self._folder, f"{self._algorithm.name} on {self._name}")

    def _save(self) -> None:
        kept = self._env.snapshot() if hasattr(self._env, "snapshot") else None
        counters = {
            "steps": self._steps,
            "updates": self._updates,
            "episodes": self._episodes,
            "metrics": self._metrics,
            "train_metrics": dict(self._train_metrics),
            "evaluated": self._evaluated,
            "settings": immutable_settings(self._name, self._algorithm, self.config),
        }
        learner, actor = self._learner.state_dict(), self._actor.state_dict()
        checkpoint.save_checkpoint(self._folder, learner, actor, kept, self._memory, counters)

    def _finish(self) -> None:
        """The last picture: an episode as a video, where the environment can be drawn."""
        if not self.config.video:
            return
        try:
            pictures = record_video(self._learner, self._name, self.config.env_options, self._eval_seed)
            save_film(own(self._folder / "episode.gif"), pictures, fps=10)
        except Exception as error:  # all has been learned and saved
            warnings.warn(f"{self._name} could not be recorded: {error}", stacklevel=2)


@contextlib.contextmanager
def _interruptible() -> Iterator[list[int]]:
    """A list of the signals that asked for an end: Ctrl-C, or a scheduler's SIGTERM; two of them end it at once."""
    pressed: list[int] = []

    def press(number: int, _: Any) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    before = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, press)
    except ValueError:  # only the main thread hears signals
        yield pressed
        return
    try:
        yield pressed
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _keep_freed_memory() -> None:
    """Let the process keep memory that it frees: giving it back and asking again costs more than small updates do."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            tune = ctypes.CDLL(None).mallopt
            tune(-3, 1 << 25)  # blocks below this are not mapped by themselves; more than this glibc refuses
            tune(-1, 1 << 30)  # how much may stay free at the end
