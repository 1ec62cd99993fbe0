"""What someone should know whose algorithm takes opponents for a team."""

from __future__ import annotations

from collections.abc import Mapping

from relive.envs.interface import Env

__all__ = ["one_team"]


def one_team(what: str, env: Env, metrics: Mapping[str, float], others: str) -> str:
    """A sentence if groups of agents get different returns, which are then learned as one; else nothing.

    Args:
        what: The algorithm, and what it makes of rewards.
        metrics: Of the first evaluation.
        others: Algorithms for opponents.
    """
    returns = [round(metrics[group.key("return")], 6) for group in env.groups if group.key("return") in metrics]
    if env.shared_reward or len(set(returns)) < 2:
        return ""
    names = ", ".join(group.name for group in env.groups)
    return f"{what} of the rewards of {names}, as one team. For opponents use {others}."
