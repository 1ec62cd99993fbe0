"""MADDPG: deterministic policies for many agents, each judged by a critic that sees everyone (Lowe et al. 2017).

With options also DDPG, MATD3, and mixed teams. See docs/algorithms/maddpg.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from recollect.envs.interface import AgentGroup
from recollect.errors import OptionError
from recollect.learn import ACTIVATIONS, Adam, Gaussian, Noise, OrnsteinUhlenbeck, Stack, head_of, linear
from recollect.learn.stack import product
from recollect.memory import Memory, NStep, Prioritized, Uniform
from recollect.schema import Schema

__all__ = ["MADDPG", "MADDPGConfig"]


@final
@dataclass(frozen=True)
class MADDPGConfig:
    """Settings of MADDPG."""

    gamma: float = 0.95
    """Discount of a step."""
    batch: int = 1024
    """Rows of a batch."""
    capacity: int = 1_000_000
    """Rows that are remembered, about."""
    warmup: int = 10_000
    """Steps before the first update."""
    update_every: int = 100
    """Steps for each update."""
    n_step: int = 1
    """Steps of reward before a critic is asked."""
    prioritized: float = 0.0
    """How much more often surprising rows are drawn; 0: all alike."""
    actor_lr: float = 3e-3
    """Step size of the policies."""
    critic_lr: float = 3e-3
    """Step size of the critics."""
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

    def __post_init__(self) -> None:
        checks = {
            "gamma": 0 <= self.gamma <= 1,
            "batch": self.batch >= 1,
            "warmup": self.warmup >= 0,
            "update_every": self.update_every >= 1,
            "n_step": self.n_step >= 1,
            "prioritized": 0 <= self.prioritized <= 1,
            "actor_lr": self.actor_lr > 0,
            "critic_lr": self.critic_lr > 0,
            "tau": 0 < self.tau <= 1,
            "clip": self.clip >= 0,
            "temperature": self.temperature > 0,
            "epsilon": 0 <= self.epsilon <= 1,
            "delay": self.delay >= 1,
            "smoothing": self.smoothing >= 0,
            "logit_penalty": self.logit_penalty >= 0,
        }
        known = {
            "activation": tuple(ACTIVATIONS),
            "init": ("uniform", "xavier", "orthogonal"),
            "noise": ("gaussian", "ou"),
        }
        for name, allowed in known.items():
            if getattr(self, name) not in allowed:
                raise OptionError(name, f"be one of {', '.join(allowed)}", repr(getattr(self, name)))
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise OptionError(name, "be finite", value)
        checks |= {name: getattr(self, name) >= 0 for name in ("noise_start", "noise_end", "noise_steps", "capacity")}
        for name, fine in checks.items():
            if not fine:
                raise OptionError(name, "be in its range", getattr(self, name))
        if not self.hidden or any(units < 1 for units in self.hidden):
            raise OptionError("hidden", "be units of at least one layer", self.hidden)

    def memory(self, schema: Schema, lanes: int, seed: int) -> Memory:
        """The memory this learns from."""
        rows = max(self.capacity // lanes, 2 * self.n_step + 2)
        sampler = Prioritized(alpha=self.prioritized) if self.prioritized else Uniform()
        window = NStep(self.n_step, gamma=self.gamma)
        return Memory(schema, capacity=rows * lanes, lanes=lanes, sampler=sampler, window=window, seed=seed)

    def learner(self, groups: Sequence[AgentGroup], seed: int) -> MADDPG:
        """The learner of these settings."""
        return MADDPG(self, groups, seed)


@final
class MADDPG:
    """The learner: acts, and learns from batches of joint transitions.

    Args:
        groups: The environment's agents.
    """

    def __init__(self, config: MADDPGConfig, groups: Sequence[AgentGroup], seed: int) -> None:
        self.config = config
        self.random = torch.Generator().manual_seed(seed)
        for name in (*config.ddpg, *config.share):
            if name != "all" and name not in [group.name for group in groups]:
                known = ", ".join(group.name or "(one group without a name)" for group in groups)
                raise OptionError("group", f"be one of {known}, or all", repr(name))
        widths = [len(group) * _obs_size(group) for group in groups]
        heads = [
            head_of(g.action_space, temperature=config.temperature, straight_through=config.straight_through)
            for g in groups
        ]
        codes = [len(group) * head.width for group, head in zip(groups, heads, strict=True)]
        joint = (sum(widths), sum(codes))
        self._teams = [
            _Team(config, group, heads[i], joint, sum(widths) + sum(codes[:i]), self.random)
            for i, group in enumerate(groups)
        ]
        self.updates = 0

    # ---- acting ----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def act(self, seen: Mapping[str, Any], *, explore: bool, step: int = 0) -> dict[str, Any]:
        """Actions for what is seen.

        Args:
            step: Steps taken so far, which the size of noise depends on.
        """
        config = self.config
        scale = linear(config.noise_start, config.noise_end, config.noise_steps, step)
        return {
            team.group.key("action"): team.act(seen, self.random if explore else None, scale) for team in self._teams
        }

    def ended(self, rows: Any) -> None:
        """Tell where episodes ended, ``[E]``."""
        for team in self._teams:
            team.noise.restart(torch.from_numpy(rows))

    # ---- learning --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def update(self, batch: Mapping[str, Any]) -> tuple[dict[str, float], np.ndarray[Any, Any]]:
        """One step of all networks; returns losses by name, and each row's error ``[B]`` for priorities."""
        self.updates += 1
        discount, weights = torch.from_numpy(batch["discount"]), batch.get("weights")
        weight = None if weights is None else torch.from_numpy(np.asarray(weights, np.float32))
        parts = [team.read(batch) for team in self._teams]
        joint = torch.cat([p.obs.flatten(1) for p in parts] + [p.codes.flatten(1) for p in parts], dim=1)
        following = [
            team.target_codes(part, self.random).transpose(0, 1).flatten(1)
            for team, part in zip(self._teams, parts, strict=True)
        ]
        joint_next = torch.cat([p.next_obs.flatten(1) for p in parts] + following, dim=1)
        losses: dict[str, Tensor] = {}
        errors = torch.zeros(len(discount))
        for team, part, codes in zip(self._teams, parts, following, strict=True):
            loss, error = team.learn_values(part, joint, joint_next, codes, discount, weight)
            losses[team.group.key("critic_loss")] = loss
            errors += error
        if self.updates % self.config.delay == 0:
            for team, part in zip(self._teams, parts, strict=True):
                losses[team.group.key("actor_loss")] = team.learn_policy(part, joint, self.random)
            for team in self._teams:
                team.move_targets()
        names = list(losses)
        values = torch.stack([losses[name] for name in names]).tolist()
        return dict(zip(names, values, strict=True)), (errors / len(self._teams)).numpy()

    # ---- keeping ---------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Everything that acting and learning depend on, as tensors by name."""
        kept = {"random": self.random.get_state(), "updates": torch.tensor(self.updates)}
        for index, team in enumerate(self._teams):
            kept |= {f"{team.group.name or index}/{name}": value for name, value in team.state().items()}
        return kept

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self.random.set_state(state["random"])
        self.updates = int(state["updates"])
        for index, team in enumerate(self._teams):
            prefix = f"{team.group.name or index}/"
            team.load({name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)})


@dataclass(slots=True)
class _Part:
    """A group's part of a batch: ``[B, A, ...]``."""

    obs: Tensor
    next_obs: Tensor
    codes: Tensor
    reward: Tensor
    present: Tensor | None
    following: Tensor | None
    allowed: Tensor | None
    next_allowed: Tensor | None


@final
class _Team:
    """The networks of one group."""

    def __init__(
        self,
        config: MADDPGConfig,
        group: AgentGroup,
        head: Any,
        joint: tuple[int, int],
        first_code: int,
        random: torch.Generator,
    ) -> None:
        self.group, self._config, self._head = group, config, head
        agents = len(group)
        self._own = group.name in config.ddpg or "all" in config.ddpg
        self._shared = group.name in config.share or "all" in config.share
        self._ids = torch.eye(agents)[:, None] if self._shared and agents > 1 else None
        count = 1 if self._shared else agents
        extra = agents if self._ids is not None else 0
        obs, codes = (_obs_size(group), head.width) if self._own else joint
        make: dict[str, Any] = {"hidden": config.activation, "init": config.init, "generator": random}
        split = obs + extra if config.embed else None

        def actor() -> Stack:
            return Stack(count, (_obs_size(group) + extra, *config.hidden, head.outputs), **make)

        def critic() -> Stack:
            return Stack(count, (obs + codes + extra, *config.hidden, 1), split=split, **make)

        self.actor, self.actor_target = actor(), actor()
        self.critics = [critic() for _ in range(2 if config.twin else 1)]
        self.critic_targets = [critic() for _ in self.critics]
        self.actor_target.copy_from(self.actor)
        for target, source in zip(self.critic_targets, self.critics, strict=True):
            target.copy_from(source)
        self._optimisers = [Adam(self.actor, config.actor_lr), *(Adam(c, config.critic_lr) for c in self.critics)]
        start = torch.arange(agents) * head.width
        begin = torch.full((agents,), obs) if self._own else first_code + start
        self._places = begin[:, None] + torch.arange(head.width) + extra
        """Where in a critic's input each agent's own code is, ``[A, width]``."""
        self.noise: Noise = Gaussian() if config.noise == "gaussian" else OrnsteinUhlenbeck()

    # ---- acting ----------------------------------------------------------------------------------------------------

    def act(self, seen: Mapping[str, Any], random: torch.Generator | None, scale: float) -> Any:
        obs = _tensor(seen[self.group.key("obs")]).transpose(0, 1)
        allowed = None
        if self.group.avail:
            allowed = torch.from_numpy(seen[self.group.key("avail_actions")]).transpose(0, 1)
        outputs = self._run(self.actor, obs)
        head = self._head
        if random is None:
            code = head.mode(outputs, allowed)
        elif head.draws:
            code, _ = head.draw(outputs, random, allowed)
            if self._config.epsilon:
                anything, _ = head.draw(torch.zeros_like(outputs), random, allowed)
                free = torch.rand(code.shape[:2], generator=random) < self._config.epsilon
                code = torch.where(free[..., None], anything, code)
        else:
            code = head.mode(outputs)
            code = (code + self.noise(code, scale, random)).clamp_(-1, 1)
        return np.ascontiguousarray(np.swapaxes(head.act(code), 0, 1))

    def _inputs(self, values: Tensor) -> Tensor:
        """Inputs ``[A, B, n]`` as the stack takes them: with a shared one all agents' in a row, after their numbers."""
        if not self._shared:
            return values
        if self._ids is not None:
            values = torch.cat([self._ids.expand(-1, values.shape[1], -1), values], dim=2)
        return values.reshape(1, -1, values.shape[2])

    def _outputs(self, values: Tensor) -> Tensor:
        return values.reshape(len(self.group), -1, values.shape[2]) if self._shared else values

    def _run(self, stack: Stack, values: Tensor) -> Tensor:
        return self._outputs(stack(self._inputs(values)))

    # ---- learning --------------------------------------------------------------------------------------------------

    def read(self, batch: Mapping[str, Any]) -> _Part:
        group = self.group
        fields = batch[group.name] if group.name else batch

        def mask(name: str, there: bool) -> Tensor | None:
            return torch.from_numpy(fields[name]) if there else None

        reward = torch.from_numpy(fields["reward"] if "reward" in fields else batch["reward"])
        return _Part(
            obs=_tensor(fields["obs"]),
            next_obs=_tensor(fields["next_obs"]),
            codes=self._head.encode(torch.from_numpy(fields["action"])),
            reward=reward if reward.dim() == 2 else reward[:, None].expand(-1, len(group)),
            present=mask("agent_mask", group.mask),
            following=mask("next_agent_mask", group.mask),
            allowed=mask("avail_actions", group.avail),
            next_allowed=mask("next_avail_actions", group.avail),
        )

    def target_codes(self, part: _Part, random: torch.Generator) -> Tensor:
        """What the target policies would do next, ``[A, B, width]``."""
        outputs = self._run(self.actor_target, part.next_obs.transpose(0, 1))
        allowed = None if part.next_allowed is None else part.next_allowed.transpose(0, 1)
        code: Tensor = self._head.mode(outputs, allowed)
        if self._config.smoothing and not self._head.draws:
            noise = torch.empty_like(code).normal_(generator=random).mul_(self._config.smoothing)
            code = (code + noise.clamp_(-2.5 * self._config.smoothing, 2.5 * self._config.smoothing)).clamp_(-1, 1)
        return code

    def _judged(self, joint: Tensor, obs: Tensor, codes: Tensor) -> Tensor:
        """What critics read: all that everyone saw and did ``[B, n]``, or each agent its own ``[A, B, n]``."""
        if self._own:
            return torch.cat([obs, codes], dim=2).transpose(0, 1)
        return joint.expand(len(self.group), *joint.shape) if self._shared else joint

    def learn_values(
        self,
        part: _Part,
        joint: Tensor,
        joint_next: Tensor,
        next_codes: Tensor,
        discount: Tensor,
        weight: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """A step of the critics; returns the loss and each row's error."""
        codes = next_codes.view(len(next_codes), len(self.group), -1)
        ahead = self._inputs(self._judged(joint_next, part.next_obs, codes))
        values = [self._outputs(target(ahead))[..., 0] for target in self.critic_targets]
        value = values[0] if len(values) == 1 else torch.minimum(*values)
        expected = value * discount
        if part.following is not None:
            expected *= part.following.T
        wanted = part.reward.T + expected
        inputs = self._inputs(self._judged(joint, part.obs, part.codes))
        total = torch.zeros(())
        error = torch.zeros(wanted.shape[1])
        scale = 2.0 / wanted.shape[1]
        for critic, optimiser in zip(self.critics, self._optimisers[1:], strict=True):
            found, trace = critic.trace(inputs)
            away = self._outputs(found)[..., 0] - wanted
            if part.present is not None:
                away *= part.present.T
            error += away.abs().mean(dim=0)
            grad = away * scale if weight is None else away * (weight * scale)
            total += (away * grad).sum() / 2
            critic.backward(trace, grad.reshape(critic.count, -1, 1))
            self._step(critic, optimiser)
        return total / len(self.critics), error / len(self.critics)

    def learn_policy(self, part: _Part, joint: Tensor, random: torch.Generator) -> Tensor:
        """A step of the policies: up the first critic's slope in the agent's own action; returns the loss."""
        agents, head, critic = len(self.group), self._head, self.critics[0]
        inputs = self._inputs(part.obs.transpose(0, 1))
        raw, trace = self.actor.trace(inputs)
        outputs = self._outputs(raw)
        allowed = None if part.allowed is None else part.allowed.transpose(0, 1)
        code, kept = head.draw(outputs, random, allowed)
        batch = code.shape[1]
        judged = self._judged(joint, part.obs, part.codes)
        own = critic.weights[0].expand(agents, -1, -1)[torch.arange(agents)[:, None], self._places]
        read = self._inputs(judged)
        read = read.expand(critic.count, *read.shape) if read.dim() == 2 else read
        first = product(read, critic.weights[0]).add_(critic.biases[0])
        change = code - part.codes.transpose(0, 1)
        first = first.view(agents, batch, -1) + torch.bmm(change, own)
        value, above = critic.after_first(first.view(critic.count, -1, first.shape[2]), read)
        grad = torch.full((agents, batch, 1), -1.0 / batch)
        if part.present is not None:
            grad *= part.present.T[..., None]
        slope = critic.first_grad(above, grad.view(critic.count, -1, 1)).view(agents, batch, -1)
        down = head.backward(kept, product(slope, own.transpose(1, 2)))
        if self._config.logit_penalty:
            free = outputs if allowed is None else outputs * allowed
            down = down + free * (2 * self._config.logit_penalty / (batch * head.outputs))
        self.actor.backward(trace, down.reshape(self.actor.count, -1, head.outputs))
        self._step(self.actor, self._optimisers[0])
        return -(value.view(agents, batch)).mean()

    def _step(self, stack: Stack, optimiser: Adam) -> None:
        if self._config.clip:
            stack.clip(self._config.clip)
        optimiser.step()

    def move_targets(self) -> None:
        """Targets a little towards the networks."""
        self.actor_target.move_towards(self.actor, self._config.tau)
        for target, critic in zip(self.critic_targets, self.critics, strict=True):
            target.move_towards(critic, self._config.tau)

    # ---- keeping ---------------------------------------------------------------------------------------------------

    def _stacks(self) -> dict[str, Stack]:
        named = {"actor": self.actor, "actor_target": self.actor_target}
        for index, (critic, target) in enumerate(zip(self.critics, self.critic_targets, strict=True)):
            named |= {f"critic_{index}": critic, f"critic_{index}_target": target}
        return named

    def state(self) -> dict[str, Tensor]:
        kept = {name: stack.flat.clone() for name, stack in self._stacks().items()}
        for index, optimiser in enumerate(self._optimisers):
            kept |= {f"adam_{index}/{name}": value for name, value in optimiser.state().items()}
        return kept | {f"noise/{name}": value for name, value in self.noise.state().items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        for name, stack in self._stacks().items():
            stack.flat.copy_(state[name])
        for index, optimiser in enumerate(self._optimisers):
            prefix = f"adam_{index}/"
            optimiser.load({name.removeprefix(prefix): v for name, v in state.items() if name.startswith(prefix)})
        self.noise.load({n.removeprefix("noise/"): v for n, v in state.items() if n.startswith("noise/")})


def _obs_size(group: AgentGroup) -> int:
    if not isinstance(group.obs_space, spaces.Box):
        raise OptionError("observation space", "be a Box", group.obs_space)
    return int(np.prod(group.obs_space.shape, dtype=int))


def _tensor(values: Any) -> Tensor:
    """Observations ``[B, A, n]``."""
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    return tensor.flatten(2).to(torch.float32)
