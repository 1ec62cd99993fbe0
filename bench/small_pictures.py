"""MinAtar's games (Young and Tian 2019), pictures of 10 x 10 cells, by Gymnasium's names: MinAtar/Breakout-v1."""

from __future__ import annotations

from minatar.gym import register_envs

register_envs()
