"""Settings of published code, where they differ from ours."""

from __future__ import annotations

from typing import Any

__all__ = ["COMA_PRESETS", "MASAC_PRESETS", "MFQ_PRESETS", "mappo_presets", "qmix_presets"]

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


_EPYMARL_PPO: dict[str, Any] = {
    "gamma": 0.99,
    "n_step": 5,
    "target_tau": 0.01,
    "epochs": 4,
    "minibatches": 1,
    "entropy": 1e-3,
    "actor_lr": 3e-4,
    "critic_lr": 3e-4,
    "eps": 1e-8,
    "td_loss": "mse",
    "value_norm": "none",
    "normalize_advantage": False,
    "standardize_reward": True,
    "reward": "sum",
    "recurrent": True,
    "recurrent_critic": False,
    "chunk_length": 10_000,
    "hidden": (128, 128),
    "init": "uniform",
}
_EPYMARL_A2C: dict[str, Any] = {**_EPYMARL_PPO, "epochs": 1, "actor_lr": 5e-4, "critic_lr": 5e-4}
_XUANCE: dict[str, Any] = {
    "epochs": 10,
    "minibatches": 1,
    "actor_lr": 7e-4,
    "critic_lr": 7e-4,
    "value_clip": 0.2,
    "td_loss": "mse",
    "hidden": (64, 64),
}
_PAPER: dict[str, Any] = {
    **_XUANCE,
    "gamma": 0.99,
    "bootstrap_on_truncation": False,
    "reward": "sum",
    "recurrent": True,
    "activation": "tanh",
}
_MAPPO: dict[str, dict[str, dict[str, Any]]] = {
    "mappo": {"epymarl": _EPYMARL_PPO, "paper": _PAPER, "xuance": {**_XUANCE, "epochs": 1}},
    "ippo": {"epymarl": _EPYMARL_PPO, "paper": _PAPER, "xuance": {**_XUANCE, "gamma": 0.99, "rollout": 200}},
    "maa2c": {"epymarl": {**_EPYMARL_A2C, "entropy": 0.01}},
    "ia2c": {"epymarl": _EPYMARL_A2C},
    "mfac": {"xuance": {**_XUANCE, "gamma": 0.99, "rollout": 200, "clip": 0.2, "td_loss": "huber"}},
}
"""EPyMARL, the MAPPO paper, XuanCe."""


def mappo_presets(name: str) -> dict[str, dict[str, Any]]:
    """Settings of MAPPO, IPPO, MAA2C, IA2C or MFAC by the name of the code that has them."""
    return _MAPPO.get(name, {})


COMA_PRESETS: dict[str, dict[str, Any]] = {
    "epymarl": {
        "gamma": 0.99,
        "n_step": 10,
        "critic_epochs": 1,
        "minibatches": 1,
        "entropy": 1e-3,
        "actor_lr": 3e-4,
        "critic_lr": 3e-4,
        "eps": 1e-8,
        "target_update_interval": 200,
        "normalize_advantage": False,
        "reward": "sum",
        "recurrent": True,
        "init": "uniform",
    },
    "xuance": {
        "gamma": 0.99,
        "rollout": 200,
        "critic_epochs": 10,
        "minibatches": 1,
        "entropy": 0.0,
        "target_update_interval": 20,
        "normalize_advantage": False,
        "standardize_reward": False,
        "hidden": (64, 128),
    },
}
"""EPyMARL and XuanCe."""


MASAC_PRESETS: dict[str, dict[str, Any]] = {
    "xuance": {
        "capacity": 100_000,
        "learning_starts": 1_000,
        "actor_lr": 0.01,
        "tau": 0.001,
        "alpha": 0.01,
        "alpha_lr": 0.01,
        "max_grad_norm": 0.0,
        "activation": "leaky_relu",
        "init": "orthogonal",
    },
}
"""XuanCe, on simple_spread."""


MFQ_PRESETS: dict[str, dict[str, Any]] = {
    "xuance": {
        "batch_size": 256,
        "capacity": 200_000,
        "update_every": 25,
        "lr": 1e-3,
        "temperature_start": 0.1,
        "temperature_end": 0.1,
        "max_grad_norm": 0.0,
        "td_loss": "mse",
        "hidden": (64, 128, 64),
    },
}
"""XuanCe, on simple_spread, with its Boltzmann policy; its target networks are copies of every hundredth update."""
