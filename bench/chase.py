"""Who learned what in simple_tag: predators and prey of an early and a late run, in all pairings.

python bench/chase.py --report docs/bench     (after bench/scores.py has trained tag and tag_late; a minute)
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relive import envs
from relive.training.evaluate import evaluate
from relive.training.replay import load_run

EPISODES = 1_000
RUNS = {"250,000": Path("runs/scores/tag"), "1,000,000": Path("runs/scores/tag_late")}

PAGE = """# The chase

Written by `bench/chase.py` after `make scores`: returns of a predator of `simple_tag`, {episodes:,} episodes a seed
without exploration, mean of {seeds} seeds. Predators and prey come from training runs of the lengths named, in all
pairings.

{table}
"""


class Pairing:
    """Predators that learned in one run, and prey that learned in another."""

    def __init__(self, predators: Any, prey: Any) -> None:
        self._both = {"adversary": predators, "agent": prey}

    def actor(self, num_envs: int, *, explore: bool) -> Pairing:
        """Both, in the same environments."""
        self._actors = {group: learner.actor(num_envs, explore=explore) for group, learner in self._both.items()}
        return self

    def act(self, obs: Mapping[str, Any], step: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
        """What each group's own actor does."""
        return {f"{group}/action": a.act(obs, step)[0][f"{group}/action"] for group, a in self._actors.items()}, {}

    def reset(self, mask: Any) -> None:
        """Tell both."""
        for actor in self._actors.values():
            actor.reset(mask)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--report", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    seeds = sorted(path.name for path in RUNS["250,000"].iterdir())
    trained = {name: [load_run(folder / seed) for seed in seeds] for name, folder in RUNS.items()}
    options = trained["250,000"][0].config.env_options
    lines = ["| predators after | " + " | ".join(f"prey after {name}" for name in RUNS) + " |", "|---|---|---|"]
    for hunter in RUNS:
        cells = []
        for hunted in RUNS:
            returns = []
            for predators, prey in zip(trained[hunter], trained[hunted], strict=True):
                env = envs.make("simple_tag", num_envs=EPISODES, **options)
                found = evaluate(Pairing(predators.learner, prey.learner), env, 20_000, 1000)  # type: ignore[arg-type]
                returns.append(found["adversary/return"])
            cells.append(f"{statistics.mean(returns):.1f}")
        lines.append(f"| {hunter} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    if asked.report:
        page = PAGE.format(episodes=EPISODES, seeds=len(seeds), table="\n".join(lines))
        (asked.report / "chase.md").write_text(page)


if __name__ == "__main__":
    main()
