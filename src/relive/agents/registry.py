"""Algorithms by name: ours, and those that users register."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from relive.agents.coma import COMAConfig
from relive.agents.dqn import DQNConfig
from relive.agents.interface import Algorithm
from relive.agents.maddpg import MADDPGConfig
from relive.agents.mappo import MAPPOConfig
from relive.agents.masac import MASACConfig
from relive.agents.mfq import MFQConfig
from relive.agents.ppo import PPOConfig
from relive.agents.qmix import QMIXConfig
from relive.agents.r2d2 import R2D2Config
from relive.agents.sac import SACConfig
from relive.agents.td3 import TD3Config
from relive.errors import OptionError
from relive.messages import did_you_mean

__all__ = ["algorithms", "default_num_envs", "find", "register", "summary"]

Made = TypeVar("Made", bound=Callable[..., Any])

_ALGORITHMS: dict[str, Algorithm] = {}
_NEEDS = ("schedule", "memory", "learner")


def register(name: str) -> Callable[[Made], Made]:
    """Let an algorithm be trained, resumed, evaluated and plotted by name: a decorator of its settings.

    Settings are a frozen dataclass with a default for everything, and the methods of ``Algorithm``; one without a
    ``name`` gets this one. A function that makes settings can be registered too: the same class by another name.

    >>> @register("mine")  # doctest: +SKIP
    ... @dataclass(frozen=True)
    ... class MineConfig: ...
    """
    if not isinstance(name, str) or not name.replace("_", "").replace("-", "").isalnum():
        raise OptionError("name", "be a word of letters, digits, - and _", repr(name))

    def add(make: Made) -> Made:
        if dataclasses.is_dataclass(make) and not hasattr(make, "name"):
            make.name = name  # type: ignore[attr-defined]
        settings: Any = make()
        frozen = dataclasses.is_dataclass(type(settings)) and type(settings).__dataclass_params__.frozen
        what = f"settings of {name}"
        if not frozen:
            raise OptionError(what, "be a frozen dataclass", type(settings).__name__, "Use @dataclass(frozen=True).")
        lacking = [need for need in _NEEDS if not callable(getattr(settings, need, None))]
        if lacking:
            raise OptionError(what, f"have {', '.join(_NEEDS)}", f"none of the name {', '.join(lacking)}")
        if settings.name != name:
            raise OptionError(what, f"have the name {name!r}", repr(settings.name))
        known = _ALGORITHMS.get(name)
        if known is not None and _source(known) != _source(settings):
            raise OptionError("name", "not be taken", repr(name), f"{_source(known)} has it.")
        _ALGORITHMS[name] = settings
        return make

    return add


def algorithms() -> dict[str, Algorithm]:
    """Settings of every algorithm as they are by default, by its name."""
    return dict(_ALGORITHMS)


def find(name: object) -> Any:
    """The settings of an algorithm as they are by default."""
    if isinstance(name, str) and name in _ALGORITHMS:
        return _ALGORITHMS[name]
    remedy = did_you_mean(name, _ALGORITHMS, "One of your own: --import the module that registers it.")
    raise OptionError("algorithm", f"be one of {', '.join(_ALGORITHMS)}", repr(name), remedy)


def summary(algorithm: Algorithm) -> str:
    """What an algorithm is, in a line."""
    return getattr(algorithm, "summary", "") or (inspect.getdoc(algorithm) or "").partition("\n")[0]


def default_num_envs(algorithm: Algorithm) -> int:
    """Vectorised environments that suit an algorithm."""
    return int(getattr(algorithm, "default_num_envs", 8))


def _source(settings: Any) -> str:
    """The class of settings, by which it is known again when its module is loaded again."""
    return f"{type(settings).__module__}.{type(settings).__qualname__}"


register("maddpg")(MADDPGConfig)
register("qmix")(QMIXConfig)
register("qplex")(lambda: QMIXConfig(mixer="qplex"))
register("vdn")(lambda: QMIXConfig(mixer="vdn"))
register("iql")(lambda: QMIXConfig(mixer="none"))
register("mappo")(MAPPOConfig)
register("ippo")(lambda: MAPPOConfig(critic="own"))
register("maa2c")(lambda: MAPPOConfig(clip=0.0, epochs=1, minibatches=1))
register("ia2c")(lambda: MAPPOConfig(critic="own", clip=0.0, epochs=1, minibatches=1))
register("mfac")(lambda: MAPPOConfig(critic="own", clip=0.0, epochs=1, minibatches=1, neighbours="all", agent_id=False))
register("mfq")(MFQConfig)
register("coma")(COMAConfig)
register("masac")(MASACConfig)
register("isac")(lambda: MASACConfig(critic="own"))
register("dqn")(DQNConfig)
register("ppo")(PPOConfig)
register("a2c")(lambda: PPOConfig(clip=0.0, epochs=1, minibatches=1, rollout=5))
register("pg")(lambda: PPOConfig(critic=False, clip=0.0, epochs=1, minibatches=1))
register("td3")(TD3Config)
register("ddpg")(lambda: TD3Config(twin_q=False, policy_delay=1, target_policy_noise=0.0))
register("sac")(SACConfig)
register("r2d2")(R2D2Config)
register("drqn")(
    lambda: R2D2Config(stored_state=False, burn_in=0, per_alpha=0.0, n_step=1, rescale=False, double_q=False)
)
