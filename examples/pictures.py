"""Draw every world for the docs: ``python examples/pictures.py docs/images``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from PIL import Image

from relive import envs
from relive.envs import particle
from relive.envs.marines import players
from relive.envs.video import save_video


def particle_picture(name: str) -> Any:
    """A world after some steps of chance."""
    env = envs.make(name)
    env.reset(seed=list(particle.SCENARIOS).index(name) + 3)
    generator = np.random.default_rng(1)
    for _ in range(8):
        action = {}
        for group in env.groups:
            assert isinstance(group.action_space, Discrete)
            action[group.key("action")] = generator.integers(0, group.action_space.n, (1, len(group)))
        env.step(action)
    return env.render()


def battle(name: str, seed: int) -> list[Any]:
    """Pictures of one battle, all shooting together."""
    env = envs.make(name)
    seen = env.reset(seed=seed)
    pictures = [env.render()]
    while True:
        step = env.step(players.focus(seen))
        if step.ended[0]:
            return pictures
        pictures.append(env.render())
        seen = step.obs


def main(folder: Path) -> None:
    """Write all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    tiles = [particle_picture(name) for name in particle.SCENARIOS]
    for name, tile in zip(particle.SCENARIOS, tiles, strict=True):
        Image.fromarray(tile).save(folder / f"{name}.png", optimize=True)
    for name in ("marines_4v4", "marines_8v8"):
        pictures = battle(name, seed=1)
        Image.fromarray(pictures[len(pictures) * 2 // 3]).save(folder / f"{name}.png", optimize=True)
        save_video(folder / f"{name}.gif", pictures, fps=6)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/images"))
