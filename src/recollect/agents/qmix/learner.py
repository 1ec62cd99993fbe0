"""The learner: Q-learning of agents whose values are mixed, from batches of whole episodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor

from recollect.agents.qmix.layout import Layout, laid_out
from recollect.agents.qmix.player import Player, best
from recollect.agents.qmix.team import Part, Team
from recollect.envs.interface import Env
from recollect.errors import OptionError
from recollect.learn import Adam, Mixer, Parameters, RMSProp, Running, linear, shorten
from recollect.memory.targets import n_step_returns, td_lambda

if TYPE_CHECKING:
    from recollect.agents.qmix.config import QMIXConfig

__all__ = ["QMIX"]

Array = np.ndarray[Any, Any]


@final
class QMIX:
    """Agents' networks and what mixes their values.

    Args:
        env: What they will play: its agents, its state if it has one.
    """

    def __init__(self, config: QMIXConfig, env: Env, seed: int) -> None:
        self.config = config
        self.random = torch.Generator().manual_seed(seed)
        self._shared_reward, self._state = env.shared_reward, env.state_space is not None
        own = config.own_reward and not env.shared_reward
        if config.mixer != "none" and own:
            raise OptionError("reward", "be sum or mean where values are mixed", "'own'", "Use --mixer none for IQL.")
        stay = config.mixer == "none" and not own
        self._teams = [Team(config, group, self.random, stay=stay) for group in env.groups]
        self.mixer = self.target_mixer = None
        if config.mixer == "mono":
            agents = sum(team.agents for team in self._teams)
            state = sum(team.agents * team.sees for team in self._teams)
            if env.state_space is not None:
                state = int(np.prod(env.state_space.shape or (1,), dtype=int))
            sizes = {"units": config.mixing_units, "hyper": config.hyper_units}
            self.mixer, self.target_mixer = (Mixer(agents, state, **sizes, generator=self.random) for _ in range(2))
        self._follow(1.0)
        make: Any = Adam if config.optimiser == "adam" else RMSProp
        eps = {"eps": config.eps} if config.eps else {}
        self._optimisers = {name: make(nets, config.lr, **eps) for name, (nets, _) in self._pairs().items()}
        columns = sum(team.agents for team in self._teams) if own else 1
        self._rewards = [Running(()) for _ in range(columns)] if config.standardize_reward else []
        most = torch.finfo(torch.float32).max
        self._range = torch.tensor([[most], [-most]]).repeat(1, columns)
        """The lowest reward seen and the highest, of everyone or of each agent; while there is none, the other way."""
        self.updates = 0

    def _pairs(self) -> dict[str, tuple[Parameters, Parameters]]:
        """Networks that learn and their targets, by name."""
        named: dict[str, tuple[Parameters, Parameters]] = {
            f"agents_{index}": (team.nets, team.target) for index, team in enumerate(self._teams)
        }
        if self.mixer is not None and self.target_mixer is not None:
            for name, stack in self.mixer.stacks.items():
                named[f"mixer_{name}"] = (stack, self.target_mixer.stacks[name])
        return named

    def _follow(self, part: float) -> None:
        for nets, target in self._pairs().values():
            target.flat.lerp_(nets.flat, part)

    def player(self, num_envs: int, *, explore: bool) -> Player:
        """The agents, ready to play in some environments."""
        return Player(self.config, self._teams, num_envs, self.random if explore else None)

    # ---- learning --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def update(self, batch: Mapping[str, Any]) -> tuple[dict[str, float], Array]:
        """One step of all networks from packed episodes; returns losses, and each episode's mean error ``[B]``."""
        config, teams = self.config, self._teams
        layout = laid_out(np.asarray(batch["lengths"]))
        fields = [batch[team.group.name] if team.group.name else batch for team in teams]
        parts = [team.read(field, layout) for team, field in zip(teams, fields, strict=True)]
        first, nexts = torch.from_numpy(layout.first), torch.from_numpy(layout.nexts)

        chosen, ahead, traces = [], [], []
        for team, part in zip(teams, parts, strict=True):
            found, trace = team.trace(part)
            value = found.take(part.chosen)
            chosen.append(value if part.present is None else value * part.present[first])
            ahead.append(self._best_values(team, part, found)[nexts])
            traces.append(trace)
        taken, following = torch.cat(chosen, dim=1), torch.cat(ahead, dim=1)

        mixing = None
        if self.mixer is not None and self.target_mixer is not None:
            taken, mixing = self.mixer.trace(taken, self._states(batch, fields, layout.seen[layout.first]))
            following = self.target_mixer(following, self._states(batch, fields, layout.seen[layout.nexts]))
        elif config.mixer == "sum":
            taken, following = taken.sum(dim=1), following.sum(dim=1)
        over = batch["terminated"] if config.bootstrap else batch["terminated"] | batch["truncated"]
        ends = torch.from_numpy(over[layout.steps])
        counted = torch.ones(len(ends))
        if config.mixer == "none":  # each by itself: only of those who are there, until they are not
            counted, ends = _there(parts, first), ends[:, None] | (_there(parts, nexts) == 0)
        reward = self._reward(batch, fields, layout)
        self._take_in(reward, counted)
        if config.bounded:
            following = following.clamp(*self._bounds())
        wanted = self._targets(self._standard(reward), following, ends, batch, layout)

        away = (taken - wanted) * counted
        weight = torch.from_numpy(np.asarray(batch["weights"], np.float32)[layout.episode])
        grad = away * (weight if away.dim() == 1 else weight[:, None]) * (2 / max(float(counted.sum()), 1.0))
        loss = float((grad * away).sum()) / 2
        if mixing is not None:
            assert self.mixer is not None
            down = self.mixer.backward(mixing, grad)
        else:
            down = grad if grad.dim() == 2 else grad[:, None].expand(-1, sum(team.agents for team in teams))
        shares = torch.split(down, [team.agents for team in teams], dim=1)
        for team, part, trace, own in zip(teams, parts, traces, shares, strict=True):
            whole = torch.zeros(len(layout.seen), team.agents, team.choices)
            whole.put_(part.chosen, own if part.present is None else own * part.present[first])
            team.backward(part, trace, whole)
        length = shorten([nets for nets, _ in self._pairs().values()], config.clip)
        pace = linear(1.0, config.lr_end, config.lr_episodes, self.updates * config.update_every)
        for optimiser in self._optimisers.values():
            optimiser.step(pace)
        self._move_targets()
        error = away.abs() if away.dim() == 1 else away.abs().sum(dim=1) / counted.sum(dim=1).clamp(min=1)
        errors = np.bincount(layout.episode, error.numpy(), len(batch["lengths"])) / np.asarray(batch["lengths"])
        mean = float((taken * counted).sum()) / max(float(counted.sum()), 1.0)
        return {"loss": loss, "grad_norm": length, "q": mean}, errors

    def _best_values(self, team: Team, part: Part, found: Tensor) -> Tensor:
        """What the best action is worth in whatever was seen, by agent ``[R, A]``, as the targets value it."""
        target = team.target_values(part)
        choice = best(found if self.config.double else target, part.allowed)
        value = target.gather(2, choice[..., None])[..., 0]
        return value if part.present is None else value * part.present

    def _targets(
        self, reward: Tensor, following: Tensor, ends: Tensor, batch: Mapping[str, Any], layout: Layout
    ) -> Tensor:
        """What values should be, ``[S]`` or ``[S, A]``.

        Args:
            following: What comes next is worth.
            ends: Where nothing comes next.
        """
        config = self.config
        if following.dim() == 2 and reward.dim() == 1:
            reward = reward[:, None].expand_as(following)
        if config.td_lambda == 0 and config.n_step == 1:
            return reward + following * (~ends * config.gamma)
        grid = (len(layout.counts) - 1, int(layout.counts[0]))
        at = (layout.time, layout.column)

        def spread(values: Array) -> Array:
            whole = np.zeros((*grid, *values.shape[1:]), values.dtype)
            whole[at] = values
            return whole

        along: dict[str, Any] = {
            "terminated": spread(ends.numpy()),
            "truncated": spread(batch["truncated"][layout.steps]),
            "mask": spread(np.ones(len(layout.time), bool)),
            "gamma": config.gamma,
        }
        given = spread(reward.numpy()), spread(following.numpy())
        if config.n_step > 1:
            found = n_step_returns(*given, n=config.n_step, **along)
        else:
            found = td_lambda(*given, lam=config.td_lambda, **along)
        return torch.from_numpy(found[at])

    def _reward(self, batch: Mapping[str, Any], fields: list[Any], layout: Layout) -> Tensor:
        """The reward of all ``[S]``, or each agent's own ``[S, A]``."""
        if self._shared_reward:
            reward = torch.from_numpy(batch["reward"][layout.steps])
        else:
            every = torch.from_numpy(np.concatenate([field["reward"][layout.steps] for field in fields], axis=1))
            mean = self.config.reward == "mean"
            reward = every if self.config.own_reward else every.mean(dim=1) if mean else every.sum(dim=1)
        return reward

    def _take_in(self, reward: Tensor, counted: Tensor) -> None:
        """Keep in mind what rewards are like: of all steps, or of each agent's while it was there."""
        columns = [reward]
        if reward.dim() == 2:
            columns = [own[there > 0] for own, there in zip(reward.T, counted.T, strict=True)]
        for index, column in enumerate(columns):
            if not len(column):
                continue
            low, high = column.aminmax()
            self._range[0, index].clamp_(max=low)
            self._range[1, index].clamp_(min=high)
            if self._rewards:
                self._rewards[index].update(column)

    def _standard(self, reward: Tensor) -> Tensor:
        """Rewards ``[n]`` or ``[n, A]`` as they are learned from: standardised, if that is asked for."""
        if not self._rewards:
            return reward
        if reward.dim() == 1:
            return self._rewards[0](reward, clip=math.inf)
        return torch.stack([each(own, clip=math.inf) for each, own in zip(self._rewards, reward.T, strict=True)], dim=1)

    def _bounds(self) -> tuple[Tensor, Tensor]:
        """The least and the most that anything can be worth, if rewards stay within those seen: ``[1]`` or ``[A]``."""
        low, high = self._standard(self._range)
        gamma = self.config.gamma
        endless = 1 / (1 - gamma) if gamma < 1 else math.inf
        unseen = self._range[0] > self._range[1]
        least = torch.where(low < 0, low * endless, low).masked_fill(unseen, -math.inf)
        return least, torch.where(high > 0, high * endless, high).masked_fill(unseen, math.inf)

    def _states(self, batch: Mapping[str, Any], fields: list[Any], rows: Array) -> Tensor:
        """The state, or all that agents see, of some rows seen ``[n]``."""
        every = [batch["state"]] if self._state else [field["obs"] for field in fields]
        flat = [values.reshape(len(values), -1).take(rows, axis=0) for values in every]
        return torch.from_numpy(flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)).to(torch.float32)

    def _move_targets(self) -> None:
        """Targets a little towards the networks, or from time to time all the way."""
        self.updates += 1
        config = self.config
        if config.tau:
            self._follow(config.tau)
            return
        first = max(config.warmup, 1)
        before, now = (
            (first + updates * config.update_every) // config.target_every
            for updates in (self.updates - 2, self.updates - 1)
        )
        if now > before:
            self._follow(1.0)

    # ---- keeping ---------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Everything that acting and learning depend on, as tensors by name."""
        kept = {"random": self.random.get_state(), "updates": torch.tensor(self.updates), "range": self._range}
        for name, (nets, target) in self._pairs().items():
            kept |= {f"{name}/flat": nets.flat.clone(), f"{name}/target": target.flat.clone()}
            kept |= {f"{name}/optimiser/{part}": value for part, value in self._optimisers[name].state().items()}
        for index, rewards in enumerate(self._rewards):
            kept |= {f"rewards_{index}/{name}": value for name, value in rewards.state().items()}
        return kept

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self.random.set_state(state["random"])
        self.updates, self._range = int(state["updates"]), state["range"].clone()
        for name, (nets, target) in self._pairs().items():
            nets.flat.copy_(state[f"{name}/flat"])
            target.flat.copy_(state[f"{name}/target"])
            self._optimisers[name].load(_below(state, f"{name}/optimiser/"))
        for index, rewards in enumerate(self._rewards):
            rewards.load(_below(state, f"rewards_{index}/"))


def _below(state: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    """What is kept under names that start so, by the rest of these names."""
    return {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}


def _there(parts: list[Part], rows: Tensor) -> Tensor:
    """Who is there, ``[n, A]``, of everyone, in some of what was seen."""
    every = [torch.ones(part.chosen.shape) if part.present is None else part.present[rows].float() for part in parts]
    return torch.cat(every, dim=1)
