"""The training loop of every algorithm: collect from vectorised environments, learn, evaluate, save."""

from __future__ import annotations

import math
import os
import secrets
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

from relive import run_files
from relive.agents.interface import Algorithm, Experience
from relive.agents.registry import find
from relive.distributed import connect
from relive.distributed.view import ShardsView
from relive.envs.dice import seeds
from relive.envs.video import save_video
from relive.errors import OptionError, RunError
from relive.learn import kernels
from relive.live import View
from relive.memory import Memory, Rollout, Shared
from relive.training import checkpoint
from relive.training.actors import ActorProcesses
from relive.training.callbacks import Callback, RunState, call
from relive.training.cluster import ClusterActors
from relive.training.collect import Collector, Going, LocalCollector
from relive.training.config_file import read_run, same_settings, with_imports, write_config
from relive.training.environments import make_drawable_env, make_env
from relive.training.evaluate import evaluate, record_video
from relive.training.films import Films
from relive.training.loggers import Records, check_installed
from relive.training.metrics import Since
from relive.training.pictures import draw_curve
from relive.training.policy import TrainedPolicy
from relive.training.remote_evaluation import RemoteEvaluation
from relive.training.settings import RunConfig, about, device_is_here, immutable_settings, resolved, with_settings
from relive.training.sharded import RunMemory, ShardedMemory
from relive.training.signals import interruptible
from relive.training.status import recorded
from relive.training.trust import check_cluster
from relive.training.views import RunView, published

__all__ = ["Progress", "Result", "new_folder", "resume", "train"]

_PATIENCE = 1000  # updates that may be due while the memory has nothing to sample

Progress = Callable[[int, int, Mapping[str, float]], None]
"""Called with steps taken, steps in all, and the newest metrics."""


@final
@dataclass(frozen=True)
class Result:
    """The result of a run."""

    folder: Path
    steps: int
    updates: int
    metrics: dict[str, float]
    """Of the last evaluation."""
    policy: TrainedPolicy
    """The policy that was learned: ``result.policy.act(obs)``."""
    memory: Memory | Rollout | None
    """The memory, if it is in this process: None with actor processes or a cluster."""
    signal: int = 0
    """The signal that interrupted it; 0: none."""

    @property
    def interrupted(self) -> bool:
        """Whether it was interrupted."""
        return self.signal != 0


def train(
    algorithm: Algorithm | str,
    env: str,
    *,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    config: RunConfig | None = None,
    callbacks: Sequence[Callback | object] = (),
    **settings: Any,
) -> Result:
    """Train an algorithm on an environment. Ctrl-C and SIGTERM end it with a checkpoint.

    Args:
        algorithm: Its name, or its settings.
        env: A name that ``relive.envs.make`` knows.
        folder: The run's folder; by default ``runs/<algorithm>-<environment>-<seed>-<time>``. It may hold a run of the
            same settings that ended before its first checkpoint.
        config: Settings of the run, which ``settings`` override.
        callbacks: Objects with any of ``on_step``, ``on_update``, ``on_evaluate``, ``on_save``.
        settings: Settings of the run (``steps``, ``seed``, ... of ``RunConfig``) and of the algorithm (``lr``,
            ``hidden``, ...) by name. Custom networks and losses are functions, modules, or names of them.

    >>> import relive
    >>> result = relive.train("dqn", env="CartPole-v1", steps=50_000, hidden=(256, 256))  # doctest: +SKIP
    >>> result.policy.act(obs)  # doctest: +SKIP
    """
    made = find(algorithm) if isinstance(algorithm, str) else algorithm
    given, run = with_settings(made, config or RunConfig(), settings)
    chosen = with_imports(env, given, resolved(given, run))
    folder = new_folder(given, env, str(chosen.seed)) if folder is None else Path(folder)
    if checkpoint.exists(folder):
        raise RunError("folder", "not hold a run already", str(folder), "Resume it, or choose another folder.")
    begun = folder / "config.toml"
    if begun.exists() and not same_settings(begun, env, given, chosen):
        remedy = "It has no checkpoint to resume: remove it."
        raise RunError("folder", "not hold a run of other settings", str(folder), remedy)
    with kernels.used(chosen.kernels):
        going = _Run(env, given, chosen, folder, progress, callbacks)  # before anything is written
        folder.mkdir(parents=True, exist_ok=True)
        write_config(folder / "config.toml", env, given, chosen)
        return going.go()


def new_folder(algorithm: Algorithm, env: str, what: str) -> Path:
    """An unused folder under ``runs``."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in env)
    return Path("runs") / f"{algorithm.name}-{safe}-{what}-{time.strftime('%Y%m%d-%H%M%S')}"


def resume(
    folder: str | Path,
    *,
    progress: Progress | None = None,
    steps: int | None = None,
    device: str | None = None,
    cluster: str | None = None,
    callbacks: Sequence[Callback | object] = (),
    trust: bool = False,
    **networks: Any,
) -> Result:
    """Resume a run from its checkpoint, as if it had not stopped.

    Args:
        steps: A new total number of steps.
        device: Another device to learn and act on.
        cluster: The address of the cluster to go on with, of a run on one. A cluster elsewhere that the run's settings
            name is joined only if it is given here too, or with ``trust``.
        callbacks: Objects with any of ``on_step``, ``on_update``, ``on_evaluate``, ``on_save``.
        trust: Whether to import modules, and to join a cluster, that the run's settings name.
        networks: Custom networks and losses that were given to ``train`` and have no importable name, as they were
            given there.
    """
    folder = Path(folder)
    env, algorithm, config = read_run(folder, trust=trust, networks=networks)
    if cluster is None:
        check_cluster(config.cluster, folder / "config.toml", trust=trust)
    elif not (cluster and config.cluster):
        raise OptionError("cluster", "be given for a run on a cluster", f"{cluster!r} for {config.cluster!r}")
    else:
        config = replace(config, cluster=cluster)
    if steps is not None:
        taken = checkpoint.load_checkpoint(folder)["steps"]
        if steps < taken:
            raise OptionError("steps", f"be at least the {taken} that were taken", steps)
        config = replace(config, steps=steps)
    with kernels.used(config.kernels):
        config = replace(config, device=device or config.device)
        going = _Run(env, algorithm, config, folder, progress, callbacks)
        going.load()
        write_config(folder / "config.toml", env, algorithm, going.config)
        return going.go()


@final
class _Run:
    """A run in progress."""

    def __init__(
        self,
        name: str,
        algorithm: Algorithm,
        config: RunConfig,
        folder: Path,
        progress: Progress | None,
        callbacks: Sequence[Callback | object],
    ) -> None:
        if not device_is_here(config.device):
            remedy = "Take another (--device cpu)."
            raise OptionError("device", "be one that torch finds here", repr(config.device), remedy)
        if config.actors and config.num_envs % config.actors:
            raise OptionError("num_envs", f"be a multiple of the {config.actors} actors", config.num_envs)
        check_installed(config.log)
        self._name, self._algorithm, self.config, self._folder = name, algorithm, config, folder
        self._progress, self._callbacks = progress, tuple(callbacks)
        self._env_seed, learner_seed, memory_seed, self._eval_seed, actor_seed = seeds(config.seed, 5)
        self._schedule = algorithm.schedule(config.num_envs)
        self._eval_env = make_env(algorithm, name, config.eval_episodes, config.env_options)
        self._learner = algorithm.learner(self._eval_env, device=config.device, seed=learner_seed)
        local = bool(config.actors) and not config.cluster
        self._shared = f"run-{os.getpid()}-{secrets.token_hex(4)}" if local else None
        memory: dict[str, Any] = {"lanes": config.num_envs, "seed": memory_seed, "storage": self._storage}
        self._memory: RunMemory = algorithm.memory(self._eval_env, **memory)
        self._evaluation: RemoteEvaluation | None = None
        self._sharded: Callable[[Path | None], ShardedMemory] | None = None
        if config.cluster:
            self._sharded = partial(sharded_memory, config, folder, self._memory)
            self._memory = self._sharded(None)
            self._evaluation = RemoteEvaluation(name, algorithm, config)
        self._state = RunState(folder, self._learner, self._memory)
        self._collector: Collector
        if isinstance(self._memory, ShardedMemory):
            self._collector = ClusterActors(name, algorithm, config, self._memory, self._state)
        elif self._shared is not None:
            self._collector = ActorProcesses(name, algorithm, config, self._memory, self._shared, self._state)
        else:
            env = make_env(algorithm, name, config.num_envs, config.env_options)
            actor = self._learner.actor(config.num_envs, explore=True, seed=actor_seed)
            self._collector = LocalCollector(env, actor, self._memory)
        self._since = Since(0, 0)
        self._metrics: dict[str, float] = {}
        self._evaluated = 0
        self._pending: dict[str, float] = {}
        """Metrics to log with the current evaluation."""
        self._records: Records | None = None
        self._stopped: list[int] = []

    @property
    def _storage(self) -> Shared | None:
        return None if self._shared is None else Shared(self._shared)

    def load(self) -> None:
        """Restore the checkpoint in the folder."""
        state, counters = self._state, checkpoint.load_checkpoint(self._folder)
        checkpoint.check_settings(self._folder, immutable_settings(self._name, self._algorithm, self.config))
        learner, actor, env = checkpoint.load_state(self._folder)
        state.steps, state.updates, state.episodes = counters["steps"], counters["updates"], counters["episodes"]
        self._metrics, self._evaluated = counters["metrics"], counters["evaluated"]
        if not isinstance(self._memory, Rollout):
            self._memory.close()
        if self._sharded is not None:
            self._memory = self._sharded(checkpoint.memory_folder(self._folder))
        elif isinstance(self._memory, Memory):
            self._memory = checkpoint.load_memory(self._folder, self._storage, self._memory.window)
        else:
            self._memory = checkpoint.load_rollout(self._folder)
        state.memory = self._memory
        with checkpoint.fitting(self._folder):
            self._learner.load_state_dict(learner)
            self._since = Since(state.steps, state.updates)
            self._since.load_state_dict(counters["since"])
        self._records = self._open_records(after=state.steps)
        with checkpoint.fitting(self._folder):
            again = (self._env_seed + state.steps) % 2**63
            self._collector.resume(self._memory, Going(actor, env, counters["returns"]), again)
        self._collector.publish(self._learner.weights(), state.updates)

    def _open_records(self, after: int | None = None) -> Records:
        return Records(self._folder, self.config.log, about(self._name, self._algorithm, self.config), after)

    def go(self) -> Result:
        """Train until all steps are taken or the run is interrupted; keeps the folder's status current."""
        try:
            with recorded(self._folder) as status, published(self._folder, self._view()):
                found = self._go()
                status.state = "done" if found.steps >= self.config.steps and not found.interrupted else "stopped"
            return found
        finally:
            if self._shared is not None and isinstance(self._memory, Memory):
                self._memory.close()

    def _view(self) -> View:
        """The view of the run that others may query."""
        if isinstance(self._memory, ShardedMemory):
            return ShardsView(self._memory.shards)
        films = Films(self._algorithm, self._name, self.config.env_options)
        if isinstance(self._collector, LocalCollector):
            self._collector.films = films
        return RunView(self._memory, films)

    def _go(self) -> Result:
        config, state = self.config, self._state
        fresh = self._records is None
        self._records = self._records or self._open_records()
        try:
            with interruptible() as stopped:
                self._stopped = stopped
                if fresh:
                    self._collector.begin(self._env_seed)
                    self._evaluate()
                    advice = getattr(self._algorithm, "advice", lambda *_: "")(self._eval_env, self._metrics)
                    if advice:
                        warnings.warn(advice, stacklevel=4)
                while state.steps < config.steps and not self._stopping:
                    before = state.steps
                    self._collect()
                    self._learn()
                    self._take_evaluation(wait=False)
                    call(self._callbacks, "on_step", state)
                    if _passed(config.eval_interval, before, state.steps):
                        self._evaluate()
                    if _passed(config.save_every, before, state.steps) and state.steps < config.steps:
                        self._save()
                done = state.steps >= config.steps
                if done and self._evaluated != state.steps:
                    self._evaluate()
                self._take_evaluation(wait=not stopped)
                done = done and not stopped
                self._save()
                if done:
                    self._finish()
            number = stopped[0] if stopped else 0
            policy = TrainedPolicy(self._learner, self._eval_env.groups)
            memory = None if self._shared or isinstance(self._memory, ShardedMemory) else self._memory
            return Result(
                self._folder, state.steps, state.updates, self._metrics, policy, memory, 0 if done else number
            )
        finally:
            self._records.close()
            self._collector.close()
            self._eval_env.close()
            if self._evaluation is not None:
                self._evaluation.close()

    @property
    def _stopping(self) -> bool:
        return bool(self._stopped) or self._state.stopping

    def _collect(self) -> None:
        state = self._state
        got = self._collector.collect(state.steps)
        state.steps, state.episodes = state.steps + got.steps, state.episodes + got.episodes
        self._since.add_episodes(got.returns)
        if self._progress is not None:
            self._progress(state.steps, self.config.steps, self._metrics)

    def _learn(self) -> None:
        state = self._state
        due = self._schedule.updates_due(state.steps, state.episodes)
        if state.updates >= due:
            return
        if self._memory.ready < 1:
            if due > state.updates + _PATIENCE:
                remedy = "Keep more (--buffer-size, --capacity), or set a limit of steps where episodes have none."
                raise RunError("memory", "hold something to learn from", "nothing that is whole", remedy)
            return
        while state.updates < due:
            metrics = self._learner.learn(self._memory, self._collector.obs)
            state.updates += 1
            if not all(map(math.isfinite, metrics.values())):
                broken = ", ".join(name for name, value in metrics.items() if not math.isfinite(value))
                whole = "The last checkpoint is whole; l" if checkpoint.exists(self._folder) else "L"
                remedy = f"{whole}ower the learning rates, or clip gradients."
                raise RunError(broken, f"stay finite (update {state.updates})", "NaN or infinity", remedy)
            self._since.add(metrics)
            call(self._callbacks, "on_update", state, metrics)
        self._collector.publish(self._learner.weights(), state.updates)

    def _evaluate(self) -> None:
        """Evaluate now; on a cluster start an evaluation beside learning."""
        state = self._state
        longest = self._eval_env.max_episode_steps or self.config.eval_max_steps
        if self._evaluation is None:
            found = evaluate(self._learner, self._eval_env, self._eval_seed, longest, lambda: not self._stopped)
            if found is not None:
                self._record(found, self._measured())
            return
        self._take_evaluation(wait=True)  # of the one before
        self._evaluation.begin(self._learner.state_dict(), self._eval_seed, longest)
        self._pending = self._measured()
        self._evaluated = state.steps

    def _measured(self) -> dict[str, float]:
        """Metrics to log with an evaluation, and its step."""
        state = self._state
        since = self._since.take(state.steps, state.updates, self._memory)
        return {**since, **self._collector.metrics(), "train/updates": state.updates, "step": state.steps}

    def _take_evaluation(self, *, wait: bool) -> None:
        if self._evaluation is not None and self._evaluation.going:
            found = self._evaluation.take(wait=wait)
            if found is not None:
                self._record(found, self._pending)

    def _record(self, found: Mapping[str, float], measured: Mapping[str, float]) -> None:
        state, logged = self._state, {**found, **measured}
        step, updates = int(logged.pop("step")), logged.pop("train/updates")
        self._metrics, self._evaluated = logged, step
        if self._progress is not None:
            self._progress(state.steps, self.config.steps, self._metrics)
        assert self._records is not None
        self._records.write(step, {**self._metrics, "train/updates": updates})
        draw_curve(self._folder, f"{self._algorithm.name} on {self._name}")
        call(self._callbacks, "on_evaluate", state, self._metrics)

    def _save(self) -> None:
        state = self._state
        actor, env, returns = self._collector.state()
        counters = {
            "steps": state.steps,
            "updates": state.updates,
            "episodes": state.episodes,
            "metrics": self._metrics,
            "since": self._since.state_dict(),
            "returns": returns,
            "evaluated": self._evaluated,
            "settings": immutable_settings(self._name, self._algorithm, self.config),
        }
        keep = self.config.keep_checkpoints
        checkpoint.save_checkpoint(self._folder, self._learner.state_dict(), actor, env, self._memory, counters, keep)
        call(self._callbacks, "on_save", state)

    def _finish(self) -> None:
        """Record a video of an episode, if the environment can be rendered."""
        if not self.config.video:
            return
        try:
            env = make_drawable_env(self._algorithm, self._name, self.config.env_options)
            video = record_video(self._learner, env, self._eval_seed)
            save_video(run_files.path_inside(self._folder, "episode.gif"), video.frames, fps=video.fps)
        except Exception as error:  # all has been learned and saved
            warnings.warn(f"{self._name} could not be recorded: {error}", stacklevel=2)


def sharded_memory(config: RunConfig, folder: Path, template: Experience, source: Path | None) -> ShardedMemory:
    """A sharded memory on a cluster, new or restored."""
    if not isinstance(template, Memory):
        remedy = "A rollout needs a single policy; actors on a cluster act with stale ones."
        raise OptionError("cluster", "be empty for an algorithm that learns from rollouts", config.cluster, remedy)
    connect(config.cluster)
    # Beside checkpoints, which are what runs resume.
    kept = None if config.durability == "none" else run_files.path_inside(folder, "shards")
    options: dict[str, Any] = {"shards": config.shards, "seed": config.seed, "durability": config.durability}
    return ShardedMemory(template, source=source, folder=kept, **options)


def _passed(every: int, before: int, now: int) -> bool:
    """Whether a multiple of ``every`` steps was passed; 0: never."""
    return bool(every) and now // every > before // every
