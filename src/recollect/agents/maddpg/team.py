"""The networks of one group of agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from recollect.agents.maddpg.guesses import Deeds, Guesses, Latest
from recollect.envs.interface import AgentGroup
from recollect.errors import OptionError
from recollect.learn import Adam, Nets, Noise, Running, Stack, head_of

if TYPE_CHECKING:
    from recollect.agents.maddpg.config import MADDPGConfig

__all__ = ["Part", "Team"]


@final
@dataclass(slots=True)
class Part:
    """A group's part of a batch: ``[B, A, ...]``, but the members that acted, ``[A, B]``."""

    obs: Tensor
    next_obs: Tensor
    codes: Tensor
    reward: Tensor
    present: Tensor | None
    following: Tensor | None
    allowed: Tensor | None
    next_allowed: Tensor | None
    member: Tensor | None


@final
class Team:
    """Policies and critics of one group.

    Args:
        groups: All groups, of which this is the one at ``index``.
    """

    def __init__(self, config: MADDPGConfig, groups: Sequence[AgentGroup], index: int, random: torch.Generator) -> None:
        self.group, self._config = groups[index], config
        agents = [len(group) for group in groups]
        seen = [_obs_size(group) for group in groups]
        how: dict[str, Any] = {"temperature": config.temperature, "shares": config.shares}
        heads = [head_of(g.action_space, straight_through=config.straight_through, **how) for g in groups]
        self.head = head = heads[index]
        self.own = self.group.name in config.ddpg or "all" in config.ddpg
        """Whether critics see their own agent only."""
        shared = self.group.name in config.share or "all" in config.share
        everything = sum(count * size for count, size in zip(agents, seen, strict=True))
        codes = [count * part.width for count, part in zip(agents, heads, strict=True)]
        obs, done = (seen[index], head.width) if self.own else (everything, sum(codes))
        make: dict[str, Any] = {"hidden": config.activation, "init": config.init, "generator": random}
        together: dict[str, Any] = {"shared": shared, **make}

        def actor() -> Nets:
            sizes = (seen[index], *config.hidden, head.outputs)
            return Nets(agents[index], sizes, members=config.ensemble, **together)

        def critic() -> Nets:
            sizes = (obs + done, *config.hidden, 1)
            return Nets(agents[index], sizes, split=obs if config.embed else None, **together)

        self.actor, self.actor_target = actor(), actor()
        self.critics = [critic() for _ in range(2 if config.twin else 1)]
        self.critic_targets = [critic() for _ in self.critics]
        for target, source in self._pairs():
            target.copy_from(source)
        rates = [config.actor_lr] + [config.critic_lr] * len(self.critics)
        self._optimisers = [
            Adam(nets.stack, rate, clip=config.clip) for nets, rate in zip(self._learning(), rates, strict=True)
        ]
        start = 0 if self.own else sum(codes[:index])
        step = 0 if self.own else head.width
        self._places = [obs + start + agent * step for agent in range(agents[index])]
        """Where in what a critic judges each agent's own code begins."""
        self._moments = Running((seen[index],)) if config.normalize_obs else None
        self._size = Running(()) if config.normalize_reward else None
        self._latest = Latest(config.batch) if config.infer and "all" not in config.ddpg else None
        self.guesses: Guesses | None = None
        if config.infer and not self.own:
            these = {"entropy": config.infer_entropy, "clip": config.clip, "tau": config.tau, **make}
            self.guesses = Guesses(index, agents, seen, heads, config.hidden, rate=config.actor_lr, **these)

    def _learning(self) -> list[Nets]:
        return [self.actor, *self.critics]

    def _pairs(self) -> list[tuple[Stack, Stack]]:
        """Targets, and what they follow."""
        targets = [self.actor_target, *self.critic_targets]
        return [(target.stack, nets.stack) for target, nets in zip(targets, self._learning(), strict=True)]

    # ---- acting ----------------------------------------------------------------------------------------------------

    def act(
        self,
        seen: Mapping[str, Any],
        random: torch.Generator | None,
        noise: Noise,
        scale: float,
        cast: Tensor | None,
    ) -> Any:
        """Actions ``[E, A, ...]``; with a generator they explore.

        Args:
            cast: Which member of its ensemble plays each agent, ``[A, E]``.
        """
        group, head = self.group, self.head
        raw = _tensor(seen[group.key("obs")]).transpose(0, 1)
        allowed = present = None
        if group.avail:
            allowed = torch.from_numpy(seen[group.key("avail_actions")]).transpose(0, 1)
        if group.mask:
            present = torch.from_numpy(seen[group.key("agent_mask")]).T
        if random is not None and self._moments is not None:
            self._moments.update(raw.flatten(0, 1) if present is None else raw[present])
        outputs = self.actor(self._normal(raw), cast)
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
            code = (code + noise(code, scale, random)).clamp_(-1, 1)
        if random is not None and self._latest is not None:
            self._latest.add(Deeds(raw, code, allowed, present))
        return np.ascontiguousarray(np.swapaxes(head.act(code), 0, 1))

    def _normal(self, obs: Tensor) -> Tensor:
        return obs if self._moments is None else self._moments(obs)

    # ---- learning --------------------------------------------------------------------------------------------------

    def read(self, batch: Mapping[str, Any]) -> Part:
        """This group's part of a batch."""
        group = self.group
        fields = batch[group.name] if group.name else batch

        def mask(name: str, there: bool) -> Tensor | None:
            return torch.from_numpy(fields[name]) if there else None

        reward = torch.from_numpy(fields["reward"] if "reward" in fields else batch["reward"])
        present = mask("agent_mask", group.mask)
        if self._size is not None:
            mine = reward[present] if present is not None and reward.dim() == 2 else reward
            self._size.update(mine.flatten())
            reward = self._size.scale(reward)
        members = self._config.ensemble > 1
        return Part(
            obs=self._normal(_tensor(fields["obs"])),
            next_obs=self._normal(_tensor(fields["next_obs"])),
            codes=self.head.encode(torch.from_numpy(fields["action"])),
            reward=reward if reward.dim() == 2 else reward[:, None].expand(-1, len(group)),
            present=present,
            following=mask("next_agent_mask", group.mask),
            allowed=mask("avail_actions", group.avail),
            next_allowed=mask("next_avail_actions", group.avail),
            member=torch.from_numpy(fields["member"]).T.to(torch.int64) if members else None,
        )

    def deeds(self, part: Part) -> Deeds:
        """What the agents did lately; what they did in the batch if none of it was done here."""
        if self._latest is None or not len(self._latest):
            masks = (None if mask is None else mask.transpose(0, 1) for mask in (part.allowed, part.present))
            return Deeds(part.obs.transpose(0, 1), part.codes.transpose(0, 1), *masks)
        latest = self._latest.read()
        latest.obs = self._normal(latest.obs)
        return latest

    def target_codes(self, part: Part, random: torch.Generator) -> Tensor:
        """What the target policies would do next, ``[A, B, width]``."""
        outputs = self.actor_target(part.next_obs.transpose(0, 1), part.member)
        allowed = None if part.next_allowed is None else part.next_allowed.transpose(0, 1)
        code: Tensor = self.head.mode(outputs, allowed)
        if self._config.smoothing and not self.head.draws:
            noise = torch.empty_like(code).normal_(generator=random).mul_(self._config.smoothing)
            code = (code + noise.clamp_(-2.5 * self._config.smoothing, 2.5 * self._config.smoothing)).clamp_(-1, 1)
        return code

    def learn_values(
        self,
        part: Part,
        joint: Tensor,
        joint_next: Tensor,
        codes: Tensor,
        discount: Tensor,
        weight: Tensor | None,
        pace: float = 1.0,
    ) -> tuple[Tensor, Tensor]:
        """A step of the critics; returns the loss and each row's error.

        Args:
            joint: All that everyone saw and did, ``[B, n]``.
            joint_next: The same a step later, ``[B, n]``, or as each agent thinks, ``[A, B, n]``.
            codes: What this group would do then, ``[A, B, width]``.
            pace: Part of the step size.
        """
        ahead = torch.cat([part.next_obs.transpose(0, 1), codes], dim=2) if self.own else joint_next
        values = [target(ahead)[..., 0] for target in self.critic_targets]
        value = values[0] if len(values) == 1 else torch.minimum(*values)
        expected = value * discount
        if part.following is not None:
            expected *= part.following.T
        wanted = part.reward.T + expected
        inputs = self._judged(joint, part)
        total = torch.zeros(())
        error = torch.zeros(wanted.shape[1])
        scale = 2.0 / wanted.shape[1]
        for critic, optimiser in zip(self.critics, self._optimisers[1:], strict=True):
            found, trace = critic.trace(inputs)
            away = found[..., 0] - wanted
            if part.present is not None:
                away *= part.present.T
            error += away.abs().mean(dim=0)
            grad = away * scale if weight is None else away * (weight * scale)
            total += (away * grad).sum() / 2
            critic.backward(trace, grad[..., None])
            optimiser.step(pace)
        return total / len(self.critics), error / len(self.critics)

    def _judged(self, joint: Tensor, part: Part) -> Tensor:
        """What critics read: all that everyone saw and did ``[B, n]``, or each agent its own ``[A, B, n]``."""
        return torch.cat([part.obs, part.codes], dim=2).transpose(0, 1) if self.own else joint

    def learn_policy(self, part: Part, joint: Tensor, random: torch.Generator, pace: float = 1.0) -> Tensor:
        """A step of the policies: up the first critic's slope in the agent's own action; returns the loss."""
        agents, head, critic = len(self.group), self.head, self.critics[0]
        outputs, trace = self.actor.trace(part.obs.transpose(0, 1), part.member)
        allowed = None if part.allowed is None else part.allowed.transpose(0, 1)
        code, kept = head.draw(outputs, random, allowed)
        batch = code.shape[1]
        judged = self._judged(joint, part)
        judged = judged.expand(agents, *judged.shape).clone() if judged.dim() == 2 else judged.contiguous()
        for agent, place in enumerate(self._places):
            judged[agent, :, place : place + head.width] = code[agent]
        value, above = critic.trace(judged)
        grad = torch.full((agents, batch, 1), -1.0 / batch)
        if part.present is not None:
            grad *= part.present.T[..., None]
        first = [place + critic.extra for place in self._places]
        down = head.backward(kept, critic.stack.slope(above, grad, first, head.width))
        if self._config.logit_penalty:
            free = outputs if allowed is None else outputs * allowed
            free = free if part.present is None else free * part.present.T[..., None]
            down = down + free * (2 * self._config.logit_penalty / (batch * head.outputs))
        self.actor.backward(trace, down, part.member)
        self._optimisers[0].step(pace)
        return -value.mean()

    def move_targets(self) -> None:
        """Targets a little towards the networks."""
        for target, source in self._pairs():
            target.move_towards(source, self._config.tau)
        if self.guesses is not None:
            self.guesses.move_targets()

    # ---- keeping ---------------------------------------------------------------------------------------------------

    def stacks(self) -> dict[str, Stack]:
        """All networks but guesses, by name."""
        named = {"actor": self.actor, "actor_target": self.actor_target}
        for index, (critic, target) in enumerate(zip(self.critics, self.critic_targets, strict=True)):
            named |= {f"critic_{index}": critic, f"critic_{index}_target": target}
        return {name: nets.stack for name, nets in named.items()}

    def _keepers(self) -> dict[str, Any]:
        """What has a state of its own, by name."""
        named: dict[str, Any] = {f"adam_{index}": adam for index, adam in enumerate(self._optimisers)}
        named |= {"moments": self._moments, "size": self._size, "latest": self._latest, "guesses": self.guesses}
        return {name: part for name, part in named.items() if part is not None}

    def state(self) -> dict[str, Tensor]:
        """Everything there is to keep."""
        kept = {name: stack.flat.clone() for name, stack in self.stacks().items()}
        for prefix, part in self._keepers().items():
            kept |= {f"{prefix}/{name}": value for name, value in part.state().items()}
        return kept

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        for name, stack in self.stacks().items():
            stack.load(state[name])
        for prefix, part in self._keepers().items():
            start = f"{prefix}/"
            part.load({name.removeprefix(start): value for name, value in state.items() if name.startswith(start)})


def _obs_size(group: AgentGroup) -> int:
    if not isinstance(group.obs_space, spaces.Box):
        raise OptionError("observation space", "be a Box", group.obs_space)
    return int(np.prod(group.obs_space.shape, dtype=int))


def _tensor(values: Any) -> Tensor:
    """Observations ``[B, A, n]``."""
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    return tensor.reshape(*tensor.shape[:2], -1).to(torch.float32)
