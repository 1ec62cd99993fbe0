"""A trained run, ready to act again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from recollect import envs
from recollect.envs.dice import seeds
from recollect.train import checkpoint
from recollect.train.evaluate import evaluate, film
from recollect.train.settings import Algorithm, Learner, RunConfig, lasting, read_run
from recollect.train.trust import check_trust

__all__ = ["Trained", "load_run"]


@final
@dataclass(frozen=True)
class Trained:
    """What a run's checkpoint holds."""

    folder: Path
    env: str
    algorithm: Algorithm
    config: RunConfig
    learner: Learner
    steps: int

    def evaluate(self, episodes: int, seed: int | None = None) -> dict[str, float]:
        """Figures of whole episodes without exploration; by default those that the run was evaluated with."""
        env = envs.make(self.env, num_envs=episodes, **self.config.env_options)
        found = evaluate(self.learner, env, self._seed(seed), env.limit or self.config.eval_max_steps)
        env.close()
        assert found is not None  # nobody ends it before its time
        return found

    def film(self, seed: int | None = None) -> list[Any]:
        """Pictures of an episode."""
        return film(self.learner, self.env, self.config.env_options, self._seed(seed))

    def _seed(self, seed: int | None) -> int:
        return seeds(self.config.seed, 4)[3] if seed is None else seed


def load_run(folder: str | Path, *, trust: bool = False) -> Trained:
    """The run of a folder, at its checkpoint.

    Args:
        trust: Whether to import the module of an environment that the run's settings name.
    """
    folder = Path(folder)
    env, algorithm, config = read_run(folder)
    check_trust(env, folder / "config.toml", trust=trust)
    facts = checkpoint.load_checkpoint(folder)
    checkpoint.check_settings(folder, lasting(env, algorithm, config))
    state, _, _ = checkpoint.load_state(folder)
    made = envs.make(env, num_envs=1, **config.env_options)
    learner = algorithm.learner(made, 0)
    made.close()
    with checkpoint.fitting(folder):
        learner.load(state)
    return Trained(folder, env, algorithm, config, learner, facts["steps"])
