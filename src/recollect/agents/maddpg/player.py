"""Agents at play: what acting depends on besides the networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor

from recollect.agents.maddpg.team import Team
from recollect.learn import Gaussian, Noise, OrnsteinUhlenbeck, linear

if TYPE_CHECKING:
    from recollect.agents.maddpg.config import MADDPGConfig

__all__ = ["Player"]


@final
class Player:
    """All agents in some environments, with their noise and the members of ensembles that play.

    Args:
        random: Explores; None: nothing does, and members of ensembles are always drawn the same way.
    """

    def __init__(
        self, config: MADDPGConfig, teams: Sequence[Team], num_envs: int, random: torch.Generator | None
    ) -> None:
        self._config, self._teams, self._random = config, teams, random
        self._noise: list[Noise] = [Gaussian() if config.noise == "gaussian" else OrnsteinUhlenbeck() for _ in teams]
        self._cast: list[Tensor] = []
        """Which member of its ensemble plays each agent in each environment, ``[A, E]`` a team."""
        if config.ensemble > 1:
            for index, team in enumerate(teams):
                drawn = torch.Generator().manual_seed(index) if random is None else random
                self._cast.append(torch.randint(config.ensemble, (len(team.group), num_envs), generator=drawn))

    @torch.no_grad()
    def act(self, seen: Mapping[str, Any], step: int = 0) -> dict[str, Any]:
        """Actions for what is seen.

        Args:
            step: Steps taken so far, which the size of noise depends on.
        """
        config = self._config
        scale = linear(config.noise_start, config.noise_end, config.noise_steps, step)
        casts: list[Any] = list(self._cast) or [None] * len(self._teams)
        return {
            team.group.key("action"): team.act(seen, self._random, noise, scale, cast)
            for team, noise, cast in zip(self._teams, self._noise, casts, strict=True)
        }

    def notes(self) -> dict[str, Any]:
        """Fields of rows besides what the environment gives: which members of ensembles acted last."""
        return {
            team.group.key("member"): cast.T.numpy().astype(np.uint8)
            for team, cast in zip(self._teams, self._cast, strict=False)
        }

    def ended(self, rows: Any) -> None:
        """New noise, and other members of ensembles, where episodes ended ``[E]``."""
        if self._random is None:
            return
        ends = torch.from_numpy(rows)
        for noise in self._noise:
            noise.restart(ends)
        for cast in self._cast:
            some = (len(cast), int(ends.sum()))
            cast[:, ends] = torch.randint(self._config.ensemble, some, generator=self._random)

    def state(self) -> dict[str, Tensor]:
        """Everything there is to keep."""
        kept = {f"cast/{index}": cast.clone() for index, cast in enumerate(self._cast)}
        for index, noise in enumerate(self._noise):
            kept |= {f"noise/{index}/{name}": value for name, value in noise.state().items()}
        return kept

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self._cast = [state[f"cast/{index}"].clone() for index in range(len(self._cast))]
        for index, noise in enumerate(self._noise):
            start = f"noise/{index}/"
            noise.load({name.removeprefix(start): value for name, value in state.items() if name.startswith(start)})
