"""Settings of QMIX, VDN and IQL."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from recollect.agents.checks import check
from recollect.agents.qmix.learner import QMIX
from recollect.envs.interface import Env
from recollect.errors import OptionError
from recollect.memory import Episodes, Memory, Prioritized, Uniform

__all__ = ["QMIXConfig"]

_NAMES = {"mono": "qmix", "sum": "vdn", "none": "iql"}
_LINES = {
    "mono": "QMIX: agents' values, mixed by a network into one that rises with each of them; whole episodes.",
    "sum": "VDN: agents' values, added up; whole episodes.",
    "none": "IQL: every agent learns the value of what it does by itself; whole episodes.",
}
_CHOICES = {"mixer": tuple(_NAMES), "optimiser": ("adam", "rmsprop"), "reward": ("auto", "sum", "mean", "own")}
_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("gamma", "td_lambda", "prioritized", "epsilon_start", "epsilon_end", "tau", "lr_end"), (0, 1)),
    **dict.fromkeys(("batch", "episodes", "target_every", "n_step", "hidden", "mixing_units"), (1, math.inf)),
    **dict.fromkeys(
        ("warmup", "update_every", "epsilon_steps", "lr", "lr_episodes", "eps", "clip", "hyper_units"), (0, math.inf)
    ),
}
_LONG = 1000  # steps that an episode is taken to have if nobody knows


@final
@dataclass(frozen=True)
class QMIXConfig:
    """Settings of QMIX, VDN and IQL."""

    mixer: Literal["mono", "sum", "none"] = "mono"
    """How values become one: mono: QMIX; sum: VDN; none: IQL."""
    gamma: float = 0.95
    """Discount of a step."""
    batch: int = 32
    """Episodes of a batch."""
    episodes: int = 5000
    """Episodes that are remembered, about."""
    warmup: int = 32
    """Episodes before the first update."""
    update_every: float = 1.0
    """Episodes for each update; below 1: several updates for each."""
    target_every: int = 200
    """Episodes after which targets become the networks."""
    tau: float = 0.0
    """How far targets move at every update instead; 0: not at all."""
    double: bool = True
    """Whether the networks choose the next action and targets value it."""
    td_lambda: float = 0.6
    """Weight of longer returns in targets; 0: one step. Only with n_step 1."""
    n_step: int = 1
    """Steps of reward before targets are asked; more than 1: instead of td_lambda."""
    bootstrap: bool = True
    """Whether targets look beyond where an episode was cut off."""
    bounded: bool = True
    """Whether targets leave out of account what no rewards seen so far could add up to."""
    prioritized: float = 0.0
    """How much more often surprising episodes are drawn; 0: all alike."""
    optimiser: Literal["adam", "rmsprop"] = "adam"
    """What takes the steps."""
    lr: float = 1e-3
    """Step size."""
    lr_end: float = 1.0
    """Part of it that is left later."""
    lr_episodes: int = 40_000
    """Episodes over which it shrinks."""
    eps: float = 0.0
    """What the optimiser adds to its divisor; 0: 1e-8 for adam, 1e-5 for rmsprop."""
    clip: float = 10.0
    """Longest gradient of everything together; 0: any."""
    recurrent: bool = True
    """Whether agents remember (GRU) or only see."""
    hidden: int = 64
    """Units of the agents' networks."""
    share: bool = True
    """Whether agents of a group share one network."""
    agent_id: bool = True
    """Whether agents who share one know who they are."""
    last_action: bool = True
    """Whether agents know what they did last."""
    mixing_units: int = 32
    """Units of the mixer."""
    hyper_units: int = 64
    """Hidden units of the networks that give the mixer's weights; 0: no hidden layer."""
    epsilon_start: float = 1.0
    """Chance of any action at first."""
    epsilon_end: float = 0.05
    """Chance of any action later."""
    epsilon_steps: int = 50_000
    """Steps over which it shrinks."""
    reward: Literal["auto", "sum", "mean", "own"] = "auto"
    """What is learned from where agents have rewards of their own; auto: own for IQL, else the sum."""
    standardize_reward: bool = False
    """Whether rewards are learned less their running mean, over their deviation."""

    def __post_init__(self) -> None:
        check(self, _CHOICES, _RANGES)
        for name in ("lr", "lr_end", "update_every"):
            if getattr(self, name) == 0:
                raise OptionError(name, "be above 0", getattr(self, name))
        if self.batch > self.episodes:
            raise OptionError("batch", f"be at most the {self.episodes} episodes that are remembered", self.batch)

    @property
    def name(self) -> str:
        """What it is called by: qmix, vdn or iql."""
        return _NAMES[self.mixer]

    @property
    def line(self) -> str:
        """What it is, in a line."""
        return _LINES[self.mixer]

    @property
    def presets(self) -> dict[str, dict[str, Any]]:
        """What published code uses, by its name."""
        alone = _PRESETS_ALONE if self.mixer == "none" else {}
        return {name: {**values, **alone.get(name, {})} for name, values in _PRESETS.items()}

    @property
    def own_reward(self) -> bool:
        """Whether agents learn from rewards of their own where they have them."""
        return self.reward == "own" or (self.reward == "auto" and self.mixer == "none")

    @property
    def lanes(self) -> int:
        """Environments in lockstep that suit it: more would make too many updates follow one another."""
        return 32

    def due(self, _steps: int, episodes: int, /) -> int:
        """Updates that there should have been by now."""
        first = max(self.warmup, 1)
        return 0 if episodes < first else int((episodes - first) / self.update_every) + 1

    def memory(self, env: Env, seed: int) -> Memory:
        """The memory this learns from: rows for the longest episodes, of which only those that happen take room."""
        each = -(-self.episodes // env.num_envs) + 2
        rows = each * ((env.limit or _LONG) + 1)
        sampler = Prioritized(alpha=self.prioritized) if self.prioritized else Uniform()
        window = Episodes(packed=True)
        try:
            return Memory(
                env.schema, capacity=rows * env.num_envs, lanes=env.num_envs, sampler=sampler, window=window, seed=seed
            )
        except OptionError as error:
            remedy = f"Remember fewer episodes (--episodes), or have fewer environments (--num-envs). {error}"
            raise OptionError("episodes", "fit in memory", self.episodes, remedy) from None

    def tidy(self, memory: Memory, episodes: int, fresh: int) -> None:
        """Forget the oldest episodes, now and then, where there are more than are remembered.

        Args:
            episodes: How many there have been.
            fresh: How many of these are new.
        """
        every = max(self.episodes // 50, 1)
        if episodes // every == (episodes - fresh) // every:
            return
        found = memory.episodes
        over = np.flatnonzero(found.terminated | found.truncated)
        extra = len(over) - self.episodes
        if extra <= 0:
            return
        end = found.start + found.length
        when = end - found.id  # steps that the lane had taken: every episode before it left a closing row
        oldest = over[np.argsort(when[over], kind="stable")[:extra]]
        keep = np.zeros(memory.lanes, np.int64)
        np.maximum.at(keep, found.lane[oldest], end[oldest] + 1)
        for lane in np.flatnonzero(keep):
            memory.forget(int(lane), int(keep[lane]))

    def learner(self, env: Env, seed: int) -> QMIX:
        """The learner of these settings."""
        return QMIX(self, env, seed)


_PRESETS: dict[str, dict[str, Any]] = {
    "pymarl": {
        "gamma": 0.99,
        "td_lambda": 0.0,
        "bounded": False,
        "reward": "sum",
        "optimiser": "rmsprop",
        "lr": 5e-4,
        "eps": 1e-5,
    },
    "epymarl": {
        "gamma": 0.99,
        "td_lambda": 0.0,
        "lr": 5e-4,
        "bootstrap": False,
        "bounded": False,
        "reward": "sum",
        "recurrent": False,
        "last_action": False,
        "standardize_reward": True,
    },
    "pymarl2": {
        "gamma": 0.99,
        "lr": 1e-3,
        "batch": 128,
        "warmup": 128,
        "update_every": 8.0,
        "td_lambda": 0.6,
        "bounded": False,
        "reward": "sum",
        "epsilon_steps": 100_000,
    },
}
"""What published code uses where it differs from the defaults: PyMARL, EPyMARL, PyMARL2."""

_PRESETS_ALONE: dict[str, dict[str, Any]] = {
    "epymarl": {"lr": 3e-4, "hidden": 128, "recurrent": True, "epsilon_steps": 200_000},
    "pymarl2": {"lr": 5e-4, "batch": 32, "warmup": 32, "td_lambda": 0.0},
}
"""What it uses for IQL where that differs again."""
