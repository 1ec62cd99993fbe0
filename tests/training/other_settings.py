"""Values of settings that differ from the defaults."""

from __future__ import annotations

from typing import Any


def other(value: Any, field: str) -> Any:
    """A value that differs from the default and may be."""
    special: dict[str, Any] = {
        "activation": "tanh",
        "init": "xavier",
        "noise": "ou",
        "hidden": (7, 9),
        "ddpg": ("agent",),
        "parameter_sharing": ("agent", "adversary"),
        "gamma": 0.5,
        "tau": 0.5,
        "lr_end": 0.5,
        "epsilon": 0.25,
        "per_alpha": 0.5,
    }
    others: dict[str, Any] = {
        "mixer": "vdn",
        "optimizer": "rmsprop",
        "reward": "mean",
        "epsilon_start": 0.5,
        "epsilon_end": 0.5,
        "td_lambda": 0.5,
        "encoder": "package.module:function",
        "network": "package.module:function",
        "td_loss": "huber",
        "device": "cpu",
        "log": ("csv", "wandb"),
        "critic": not value if isinstance(value, bool) else "auto" if value == "own" else "own",
        "neighbours": "none" if value == "all" else "all",
        "value_norm": "popart",
        "gae_lambda": 0.5,
        "target_tau": 0.5,
        "target_entropy": 0.25,
        "per_beta": 0.5,
        "distribution": "qr",
        "hindsight": "final",
        "priority_eta": 0.5,
        "v_min": -5.0,
        "log_std": -1.0,
        "cluster": "local",
        "durability": "none",
        "rnn": "lstm",
    }
    if isinstance(value, int) and field in ("hidden", "parameter_sharing"):
        return not value if isinstance(value, bool) else value + 3
    if field in {**special, **others}:
        return {**special, **others}[field]
    return not value if isinstance(value, bool) else value + 3
