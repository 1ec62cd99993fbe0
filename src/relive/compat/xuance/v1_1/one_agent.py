"""Buffers for one agent as XuanCe had them up to 1.1: what came later, with their arguments, in their tuples."""

from __future__ import annotations

from typing import Any, final

from relive.compat.checks import at_least
from relive.compat.xuance import buffer, off_policy, on_policy, recurrent

__all__ = [
    "Buffer",
    "DummyOffPolicyBuffer",
    "DummyOffPolicyBuffer_Atari",
    "DummyOnPolicyBuffer",
    "DummyOnPolicyBuffer_Atari",
    "PerOffPolicyBuffer",
    "RecurrentOffPolicyBuffer",
    "Samples",
]


@final
class Samples(tuple[Any, ...]):
    """The documented tuple; what it has no place for comes as attributes."""

    auxiliary_infos: Any = None
    """Auxiliary information of the sampled steps."""
    mask: Any = None
    """Which steps are real, where sequences are padded."""


def _in_order(samples: dict[str, Any], *names: str) -> Samples:
    ordered = Samples(samples[name] for name in names)
    ordered.auxiliary_infos, ordered.mask = samples.get("aux_batch"), samples.get("mask")
    return ordered


def _of_all(n_envs: Any, n_size: Any, least: int = 2) -> int:
    """Steps, or episodes, of all environments."""
    return at_least("n_envs", n_envs, 1) * at_least("n_size", n_size, least)


class Buffer(buffer.Buffer):
    """A memory of one agent's steps in parallel environments."""

    def __init__(self, observation_space: Any, action_space: Any, auxiliary_info_shape: Any) -> None:
        super().__init__(observation_space, action_space, auxiliary_info_shape, 1, 1)
        self.n_size = 0

    @property
    def full(self) -> bool:
        """Whether every new step overwrites an old one."""
        return 0 < self.n_size <= self.size


class DummyOnPolicyBuffer(on_policy.DummyOnPolicyBuffer):
    """Rollouts of ``n_envs`` environments, ``n_size`` steps each."""

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        auxiliary_shape: Any,
        n_envs: int,
        n_size: int,
        use_gae: bool = True,
        use_advnorm: bool = True,
        gamma: float = 0.99,
        gae_lam: float = 0.95,
        *,
        seed: int | None = None,
    ) -> None:
        steps = _of_all(n_envs, n_size) // n_envs
        spaces = (observation_space, action_space, auxiliary_shape)
        super().__init__(*spaces, n_envs, steps, use_gae, use_advnorm, gamma, gae_lam, seed=seed)

    def sample(self, indexes: Any) -> Any:
        """Observations, actions, returns, values, advantages and auxiliary information of steps."""
        samples = super().sample(indexes)
        return _in_order(samples, "obs", "actions", "returns", "values", "advantages", "aux_batch")


class DummyOnPolicyBuffer_Atari(DummyOnPolicyBuffer):  # noqa: N801 - their name
    """The same with observations kept as bytes; floats are refused, as they would be cut to zeros."""

    def _observation_field(self) -> Any:
        return buffer.image_field(self.observation_space)


_TRANSITION = ("obs", "actions", "rewards", "terminals", "obs_next")


class DummyOffPolicyBuffer(off_policy.DummyOffPolicyBuffer):
    """Replay of ``n_envs`` environments, ``n_size`` steps each, drawn uniformly."""

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        auxiliary_shape: Any,
        n_envs: int,
        n_size: int,
        batch_size: int,
        *,
        seed: int | None = None,
    ) -> None:
        size = _of_all(n_envs, n_size)
        super().__init__(observation_space, action_space, auxiliary_shape, n_envs, size, batch_size, seed=seed)

    def sample(self, batch_size: int | None = None) -> Any:
        """Observations, actions, rewards, terminals and next observations of ``batch_size`` steps."""
        return _in_order(super().sample(batch_size), *_TRANSITION)


class DummyOffPolicyBuffer_Atari(DummyOffPolicyBuffer):  # noqa: N801 - their name
    """The same with observations kept as bytes; floats are refused, as they would be cut to zeros."""

    def _observation_field(self) -> Any:
        return buffer.image_field(self.observation_space)


class PerOffPolicyBuffer(off_policy.PerOffPolicyBuffer):
    """Prioritised replay over all environments alike, ``n_size`` steps each."""

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        auxiliary_shape: Any,
        n_envs: int,
        n_size: int,
        batch_size: int,
        alpha: float = 0.6,
        *,
        seed: int | None = None,
    ) -> None:
        spaces = (observation_space, action_space, auxiliary_shape)
        super().__init__(*spaces, n_envs, _of_all(n_envs, n_size), batch_size, alpha, seed=seed)

    def sample(self, beta: float) -> Any:
        """As other replay, then weights and what ``update_priorities`` knows the steps by."""
        return _in_order(super().sample(beta), *_TRANSITION, "weights", "step_choices")


class RecurrentOffPolicyBuffer(recurrent.RecurrentOffPolicyBuffer):
    """The newest ``n_size`` episodes, of which sequences of ``lookup_length`` steps are drawn."""

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        auxiliary_shape: Any,
        n_envs: int,
        n_size: int,
        batch_size: int,
        episode_length: int,
        lookup_length: int,
        *,
        seed: int | None = None,
        padded: bool = True,
    ) -> None:
        spaces, lengths = (observation_space, action_space, auxiliary_shape), (episode_length, lookup_length)
        size = _of_all(n_envs, n_size, least=1)
        super().__init__(*spaces, n_envs, size, batch_size, *lengths, seed=seed, padded=padded)

    def sample(self) -> Any:
        """Observations ``[B, T + 1, ...]``, actions, rewards and terminals ``[B, T, ...]``; a ``mask`` if padded."""
        return _in_order(super().sample(), "obs", "actions", "rewards", "terminals")


for _kind in (DummyOnPolicyBuffer, DummyOffPolicyBuffer, PerOffPolicyBuffer, RecurrentOffPolicyBuffer):
    Buffer.register(_kind)
