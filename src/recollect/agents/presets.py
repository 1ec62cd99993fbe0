"""Settings of published code, where they differ from ours."""

from __future__ import annotations

from typing import Any

__all__ = ["qmix_presets"]

_QMIX: dict[str, dict[str, Any]] = {
    "pymarl": {
        "gamma": 0.99,
        "td_lambda": 0.0,
        "clip_targets": False,
        "reward": "sum",
        "optimizer": "rmsprop",
        "lr": 5e-4,
        "eps": 1e-5,
    },
    "epymarl": {
        "gamma": 0.99,
        "td_lambda": 0.0,
        "lr": 5e-4,
        "bootstrap_on_truncation": False,
        "clip_targets": False,
        "reward": "sum",
        "recurrent": False,
        "last_action": False,
        "standardize_reward": True,
    },
    "pymarl2": {
        "gamma": 0.99,
        "lr": 1e-3,
        "batch_size": 128,
        "learning_starts": 128,
        "update_every": 8.0,
        "td_lambda": 0.6,
        "clip_targets": False,
        "reward": "sum",
        "epsilon_steps": 100_000,
    },
}
"""PyMARL, EPyMARL, PyMARL2."""

_INDEPENDENT: dict[str, dict[str, Any]] = {
    "epymarl": {"lr": 3e-4, "hidden": 128, "recurrent": True, "epsilon_steps": 200_000},
    "pymarl2": {"lr": 5e-4, "batch_size": 32, "learning_starts": 32, "td_lambda": 0.0},
}
"""What they use for IQL where that differs again."""


def qmix_presets(*, independent: bool) -> dict[str, dict[str, Any]]:
    """Settings of QMIX, VDN or IQL by the name of the code that has them."""
    more = _INDEPENDENT if independent else {}
    return {name: {**values, **more.get(name, {})} for name, values in _QMIX.items()}
