"""What is known of a whole environment: its state, or all that agents observe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

import torch
from torch import Tensor, nn

from relive.envs.interface import Env
from relive.errors import OptionError
from relive.learn.encoders import Encoder, EncoderFactory

__all__ = ["CentralInputs"]


@final
class CentralInputs(nn.Module):
    """Features of the environment's state, or of all agents' observations one after another.

    Args:
        encoder: Of observations.
        what: ``"auto"``: the state where there is one.
    """

    def __init__(
        self, env: Env, encoder: EncoderFactory | None, what: Literal["auto", "state", "all_obs"] = "auto"
    ) -> None:
        super().__init__()
        if what == "state" and env.state_space is None:
            raise OptionError("critic", "not be state where the environment has none", repr(what), "Use all_obs.")
        self._groups = [group.name for group in env.groups]
        self._state = env.state_space is not None and what != "all_obs"
        if self._state:
            encoders, counts = [Encoder(env.state_space)], [1]
        else:
            encoders = [Encoder(group.obs_space, encoder) for group in env.groups]
            counts = [len(group) for group in env.groups]
        self.encoders = nn.ModuleList(encoders)
        self.features = sum(count * each.features for count, each in zip(counts, encoders, strict=True))
        """Numbers that it gives."""

    def forward(self, batch: Mapping[str, Any]) -> Tensor:
        """``[R, n]`` of rows ``[R, ...]``."""
        parts = [batch[name] if name else batch for name in self._groups]
        every = [batch["state"]] if self._state else [part["obs"] for part in parts]
        features = [encode(each).flatten(1) for encode, each in zip(self.encoders, every, strict=True)]
        return features[0] if len(features) == 1 else torch.cat(features, dim=1)
