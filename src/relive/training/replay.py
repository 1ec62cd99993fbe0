"""Trained runs, loaded for evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from relive.agents.interface import Algorithm, Learner
from relive.envs.dice import seeds
from relive.training import checkpoint
from relive.training.config_file import read_run
from relive.training.environments import make_drawable_env, make_env
from relive.training.evaluate import Video, evaluate, record_video
from relive.training.settings import RunConfig, device_is_here, immutable_settings

__all__ = ["Trained", "load_run"]


@final
@dataclass(frozen=True)
class Trained:
    """A run at a checkpoint."""

    folder: Path
    env: str
    algorithm: Algorithm
    config: RunConfig
    learner: Learner
    steps: int

    def evaluate(self, episodes: int, seed: int | None = None, *, explore: bool = False) -> dict[str, float]:
        """Evaluation metrics; by default with the seeds of the run's own evaluations.

        Args:
            explore: Whether to explore as in training, rather than act greedily.
        """
        env = make_env(self.algorithm, self.env, episodes, self.config.env_options)
        longest = env.max_episode_steps or self.config.eval_max_steps
        found = evaluate(self.learner, env, self._seed(seed), longest, explore_at=self.steps if explore else None)
        env.close()
        assert found is not None  # nobody ends it before its time
        return found

    def record_video(self, seed: int | None = None) -> Video:
        """A video of an episode."""
        env = make_drawable_env(self.algorithm, self.env, self.config.env_options)
        return record_video(self.learner, env, self._seed(seed))

    def _seed(self, seed: int | None) -> int:
        return seeds(self.config.seed, 5)[3] if seed is None else seed


def load_run(
    folder: str | Path,
    *,
    step: int | None = None,
    trust: bool = False,
    device: str | None = None,
    **networks: Any,
) -> Trained:
    """The run of a folder, at its checkpoint.

    Args:
        step: At an earlier one that was kept (``keep_checkpoints``).
        trust: Whether to import modules that the run's settings name.
        device: Torch device; None: the run's if available here, else the CPU.
        networks: Custom networks and losses that were given in Python and have no importable name.
    """
    folder = Path(folder)
    env, algorithm, config = read_run(folder, trust=trust, networks=networks)
    counters = checkpoint.load_checkpoint(folder)
    checkpoint.check_settings(folder, immutable_settings(env, algorithm, config))
    state = checkpoint.load_state(folder)[0] if step is None else checkpoint.load_kept(folder, step)
    made = make_env(algorithm, env, 1, config.env_options)
    here = config.device if device_is_here(config.device) else "cpu"
    learner = algorithm.learner(made, device=device or here, seed=0)
    made.close()
    with checkpoint.fitting(folder):
        learner.load_state_dict(state)
    return Trained(folder, env, algorithm, config, learner, counters["steps"] if step is None else step)
