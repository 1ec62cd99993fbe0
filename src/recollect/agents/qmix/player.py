"""Agents at play: their recurrent states, their last actions, and chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor

from recollect.agents.qmix.team import Team
from recollect.learn import linear

if TYPE_CHECKING:
    from recollect.agents.qmix.config import QMIXConfig

__all__ = ["Player"]


@final
class Player:
    """All agents in some environments.

    Args:
        random: Draws actions by chance as often as epsilon says; None: always the best there is.
    """

    def __init__(
        self, config: QMIXConfig, teams: Sequence[Team], num_envs: int, random: torch.Generator | None
    ) -> None:
        self._config, self._teams, self._random = config, teams, random
        self._states = [team.states(num_envs) for team in teams]
        self._last = [np.full((num_envs, team.agents), -1) for team in teams]
        """What agents did last, ``[E, A]`` a team; -1 before an episode's first step."""

    @torch.no_grad()
    def act(self, seen: Mapping[str, Any], step: int = 0) -> dict[str, Any]:
        """Actions for what is seen.

        Args:
            step: Steps taken so far, which epsilon depends on.
        """
        config, done = self._config, {}
        epsilon = linear(config.epsilon_start, config.epsilon_end, config.epsilon_steps, step)
        for team, states, last in zip(self._teams, self._states, self._last, strict=True):
            values = team.values(seen, last, states)
            allowed = torch.from_numpy(seen[team.group.key("avail_actions")]) if team.group.avail else None
            action = best(values, allowed)
            if self._random is not None:
                draws = torch.rand(values.shape, generator=self._random)
                by_chance = torch.rand(action.shape, generator=self._random) < epsilon
                action = torch.where(by_chance, best(draws, allowed), action)
            last[...] = action.numpy()
            done[team.group.key("action")] = last + team.first_action
        return done

    def notes(self) -> dict[str, Any]:
        """Rows hold what the environment gives."""
        return {}

    def ended(self, rows: Any) -> None:
        """Begin anew where episodes ended, ``[E]``."""
        ends = torch.from_numpy(rows)
        for team, states, last in zip(self._teams, self._states, self._last, strict=True):
            team.restart(states, ends)
            last[rows] = -1

    def state(self) -> dict[str, Tensor]:
        """Everything there is to keep."""
        kept = {f"states/{index}": states.clone() for index, states in enumerate(self._states)}
        return kept | {f"last/{index}": torch.from_numpy(last.copy()) for index, last in enumerate(self._last)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        for index, (states, last) in enumerate(zip(self._states, self._last, strict=True)):
            states.copy_(state[f"states/{index}"])
            last[...] = state[f"last/{index}"].numpy()


def best(values: Tensor, allowed: Tensor | None) -> Tensor:
    """The action of the highest value among those that may be taken, ``[..., A]``."""
    return (values if allowed is None else values.masked_fill(~allowed, -torch.inf)).argmax(dim=-1)
