"""Adapter of custom Gymnasium or PettingZoo environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import gymnasium

from relive.envs.adapters.from_gymnasium import FromGymnasium
from relive.envs.adapters.from_pettingzoo import FromPettingZoo
from relive.envs.adapters.single_env import SingleEnv
from relive.errors import OptionError

__all__ = ["MakeSingle"]


@final
class MakeSingle:
    """Makes one environment by the user's function; picklable if the function is."""

    def __init__(self, name: str, make: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self._name, self._make, self._options = name, make, dict(options)

    def __call__(self) -> SingleEnv:
        """Make it."""
        made = self._make(**self._options)
        if isinstance(made, gymnasium.Env):
            return FromGymnasium(made)
        if hasattr(made, "possible_agents"):
            return FromPettingZoo(made)
        rule = "make a Gymnasium environment or a PettingZoo parallel environment, or take num_envs"
        raise OptionError(f"what makes {self._name}", rule, type(made).__name__)
