"""What agents think the others' policies are, learned from what these do (Lowe et al. 2017, section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from recollect.learn import Adam, Head, Stack

__all__ = ["Deeds", "Guesses", "Latest"]


@final
@dataclass(slots=True)
class Deeds:
    """What a group's agents saw and did, ``[A, B, ...]``."""

    obs: Tensor
    codes: Tensor
    allowed: Tensor | None
    present: Tensor | None


@final
class Latest:
    """The newest deeds of a group, ``rows`` of them."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._kept: dict[str, Tensor] = {}
        self._written = 0

    def __len__(self) -> int:
        return min(self._written, self._rows)

    def add(self, deeds: Deeds) -> None:
        """Take deeds in, in place of the oldest."""
        count = deeds.obs.shape[1]
        places = (torch.arange(count)[-self._rows :] + self._written) % self._rows
        for name in ("obs", "codes", "allowed", "present"):
            values = getattr(deeds, name)
            if values is None:
                continue
            if name not in self._kept:
                self._kept[name] = values.new_zeros(len(values), self._rows, *values.shape[2:])
            self._kept[name][:, places] = values[:, -self._rows :]
        self._written += count

    def read(self) -> Deeds:
        """All that is kept."""
        some = {name: values[:, : len(self)] for name, values in self._kept.items()}
        return Deeds(some["obs"], some["codes"], some.get("allowed"), some.get("present"))

    def state(self) -> dict[str, Tensor]:
        """Everything there is to keep."""
        return {name: values.clone() for name, values in self._kept.items()} | {"written": torch.tensor(self._written)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self._written = int(state["written"])
        self._kept = {name: values.clone() for name, values in state.items() if name != "written"}


@final
class Guesses:
    """What each agent of a group thinks of every agent of every group: a policy each, and its target.

    Args:
        own: Which of the groups it is.
        agents: How many agents each group has.
        inputs: Numbers that an agent of each group sees.
        layers: Units of the hidden layers.
        rate: Step size.
        entropy: Weight of the guesses' entropy.
    """

    def __init__(
        self,
        own: int,
        agents: Sequence[int],
        inputs: Sequence[int],
        heads: Sequence[Head],
        layers: Sequence[int],
        *,
        rate: float,
        entropy: float,
        clip: float,
        tau: float,
        **options: Any,
    ) -> None:
        self._own, self._heads, self._entropy, self._tau = own, heads, entropy, tau
        self._seers = agents[own]
        self.stacks: list[Stack] = []
        """For each group, those who guess times those whom they guess: ``[seers * A, ...]``."""
        self.targets: list[Stack] = []
        for count, size, head in zip(agents, inputs, heads, strict=True):
            shape = (size, *layers, head.outputs)
            stack, target = (Stack(self._seers * count, shape, **options) for _ in range(2))
            target.copy_from(stack)
            self.stacks.append(stack)
            self.targets.append(target)
        self._optimisers = [Adam(stack, rate, clip=clip) for stack in self.stacks]

    def learn(self, deeds: Sequence[Deeds], pace: float = 1.0) -> Tensor:
        """A step towards what every group did; returns the mean loss."""
        total = torch.zeros(())
        for stack, optimiser, head, done in zip(self.stacks, self._optimisers, self._heads, deeds, strict=True):
            outputs, trace = stack.trace(self._each(done.obs))
            allowed = None if done.allowed is None else self._each(done.allowed)
            loss, grad = head.fit(outputs, self._each(done.codes), self._entropy, allowed)
            if done.present is not None:
                here = self._each(done.present)
                loss, grad = loss * here, grad * here[..., None]
            stack.backward(trace, grad / loss.shape[1])
            optimiser.step(pace)
            total += loss.mean()
        return total / len(self.stacks)

    def joint(self, obs: Sequence[Tensor], own: Tensor, allowed: Sequence[Tensor | None]) -> Tensor:
        """All that everyone sees, and does as each agent of this group thinks: ``[seers, B, n]``.

        Args:
            obs: What each group sees, ``[A, B, n]``.
            own: What this group does, ``[seers, B, width]``: an agent knows its own policy.
            allowed: What each group may do.
        """
        seers, rows = self._seers, own.shape[1]
        seen = torch.cat([part.transpose(0, 1).flatten(1) for part in obs], dim=1)
        codes = []
        for index, (target, head) in enumerate(zip(self.targets, self._heads, strict=True)):
            mask = allowed[index]
            code = head.mode(target(self._each(obs[index])), None if mask is None else self._each(mask))
            code = code.reshape(seers, -1, rows, head.width)
            if index == self._own:
                alike = torch.arange(seers)
                code = code.clone()
                code[alike, alike] = own
            codes.append(code.transpose(1, 2).flatten(2))
        return torch.cat([seen.expand(seers, -1, -1), *codes], dim=2)

    def move_targets(self) -> None:
        """Targets a little towards the guesses."""
        for target, stack in zip(self.targets, self.stacks, strict=True):
            target.move_towards(stack, self._tau)

    def _each(self, values: Tensor) -> Tensor:
        """Values ``[A, ...]`` for everyone who guesses: ``[seers * A, ...]``."""
        return values.expand(self._seers, *values.shape).flatten(0, 1)

    def state(self) -> dict[str, Tensor]:
        """Everything there is to keep."""
        kept: dict[str, Tensor] = {}
        for index, (stack, target, adam) in enumerate(zip(self.stacks, self.targets, self._optimisers, strict=True)):
            kept |= {f"{index}/flat": stack.flat.clone(), f"{index}/target": target.flat.clone()}
            kept |= {f"{index}/adam/{name}": value for name, value in adam.state().items()}
        return kept

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        for index, (stack, target, adam) in enumerate(zip(self.stacks, self.targets, self._optimisers, strict=True)):
            stack.load(state[f"{index}/flat"])
            target.load(state[f"{index}/target"])
            adam.load({name: state[f"{index}/adam/{name}"] for name in ("mean", "square", "steps")})
