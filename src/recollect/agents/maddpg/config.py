"""Settings of MADDPG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, final

from recollect.agents.checks import check
from recollect.agents.maddpg.learner import MADDPG
from recollect.envs.interface import Env
from recollect.errors import OptionError
from recollect.learn import ACTIVATIONS
from recollect.memory import Memory, NStep, Prioritized, Uniform
from recollect.schema import Field

__all__ = ["MADDPGConfig"]

_CHOICES = {
    "activation": tuple(ACTIVATIONS),
    "init": ("uniform", "xavier", "orthogonal"),
    "noise": ("gaussian", "ou"),
}
_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("gamma", "prioritized", "tau", "epsilon", "lr_end"), (0, 1)),
    **dict.fromkeys(("batch", "update_every", "n_step", "delay", "lr_steps"), (1, math.inf)),
    **dict.fromkeys(
        ("capacity", "warmup", "actor_lr", "critic_lr", "clip", "logit_penalty", "temperature"), (0, math.inf)
    ),
    **dict.fromkeys(("noise_start", "noise_end", "noise_steps", "smoothing", "infer_entropy"), (0, math.inf)),
    "ensemble": (1, 256),
}


@final
@dataclass(frozen=True)
class MADDPGConfig:
    """Settings of MADDPG."""

    gamma: float = 0.95
    """Discount of a step."""
    batch: int = 256
    """Rows of a batch."""
    capacity: int = 1_000_000
    """Rows that are remembered, about."""
    warmup: int = 10_000
    """Steps before the first update."""
    update_every: int = 25
    """Steps for each update."""
    n_step: int = 1
    """Steps of reward before a critic is asked."""
    prioritized: float = 0.0
    """How much more often surprising rows are drawn; 0: all alike."""
    actor_lr: float = 3e-3
    """Step size of the policies."""
    critic_lr: float = 3e-3
    """Step size of the critics."""
    lr_end: float = 1.0
    """Part of these step sizes that is left later."""
    lr_steps: int = 1_000_000
    """Steps over which they shrink."""
    tau: float = 0.01
    """How far targets move towards the networks at every update."""
    hidden: tuple[int, ...] = (64, 64)
    """Units of the hidden layers."""
    activation: Literal["relu", "leaky_relu", "tanh"] = "relu"
    """After each hidden layer."""
    init: Literal["uniform", "xavier", "orthogonal"] = "uniform"
    """How weights begin."""
    embed: bool = False
    """Whether a critic's first layer keeps observations and actions apart."""
    clip: float = 0.5
    """Longest gradient of one network; 0: any."""
    logit_penalty: float = 1e-3
    """Weight of the policies' squared outputs in their loss."""
    temperature: float = 1.0
    """Of relaxed draws of discrete actions."""
    shares: bool = False
    """Whether continuous actions from 0 to 1 are shares of one, drawn relaxed as OpenAI's code does."""
    straight_through: bool = True
    """Whether critics see drawn discrete actions one-hot."""
    noise: Literal["gaussian", "ou"] = "gaussian"
    """What explores with continuous actions."""
    noise_start: float = 0.3
    """Its size at first, where actions span -1 to 1."""
    noise_end: float = 0.05
    """Its size later."""
    noise_steps: int = 500_000
    """Steps over which it shrinks."""
    epsilon: float = 0.0
    """Chance of any action at all, with discrete actions."""
    ddpg: tuple[str, ...] = ()
    """Groups whose critics see their own agent only."""
    share: tuple[str, ...] = ()
    """Groups whose agents share their networks ("all": every group)."""
    twin: bool = False
    """Two critics an agent, of which the lower counts (TD3)."""
    delay: int = 1
    """Updates of critics for one of policies and targets (TD3)."""
    smoothing: float = 0.0
    """Noise on the targets' continuous actions (TD3)."""
    ensemble: int = 1
    """Policies of each agent, of which every episode draws one."""
    infer: bool = False
    """Whether agents guess the others' policies from what they do, in place of knowing them."""
    infer_entropy: float = 1e-3
    """Weight of the entropy of guesses in their loss."""
    normalize_obs: bool = False
    """Whether networks read observations less their running mean, over their deviation."""
    normalize_reward: bool = False
    """Whether critics learn rewards over their running size."""

    def __post_init__(self) -> None:
        check(self, _CHOICES, _RANGES)
        for name in ("actor_lr", "critic_lr", "lr_end", "tau", "temperature"):
            if getattr(self, name) == 0:
                raise OptionError(name, "be above 0", getattr(self, name))
        if not self.hidden or any(units < 1 for units in self.hidden):
            raise OptionError("hidden", "be units of at least one layer", self.hidden)

    @property
    def name(self) -> str:
        """What it is called by."""
        return "maddpg"

    @property
    def line(self) -> str:
        """What it is, in a line."""
        return "MADDPG: deterministic policies for many agents, each judged by a critic that sees everyone."

    @property
    def lanes(self) -> int:
        """Environments in lockstep that suit it."""
        return 64

    def due(self, steps: int, _episodes: int, /) -> int:
        """Updates that there should have been by now."""
        return 0 if steps < self.warmup else (steps - max(self.warmup, 1)) // self.update_every + 1

    def memory(self, env: Env, seed: int) -> Memory:
        """The memory this learns from."""
        schema, lanes = env.schema, env.num_envs
        if self.ensemble > 1:
            for group, agents in schema.agents.items():
                key = f"{group}/member" if group else "member"
                schema = schema.plus(**{key: Field((len(agents),), "uint8")})
        rows = max(self.capacity // lanes, 2 * self.n_step + 2)
        sampler = Prioritized(alpha=self.prioritized) if self.prioritized else Uniform()
        window = NStep(self.n_step, gamma=self.gamma)
        return Memory(schema, capacity=rows * lanes, lanes=lanes, sampler=sampler, window=window, seed=seed)

    def tidy(self, memory: Memory, episodes: int, fresh: int) -> None:
        """The memory forgets its oldest rows by itself."""

    def learner(self, env: Env, seed: int) -> MADDPG:
        """The learner of these settings."""
        return MADDPG(self, env.groups, seed)
