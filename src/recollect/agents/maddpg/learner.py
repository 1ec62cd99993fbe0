"""The learner: learns from batches of joint transitions, and makes players."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor

from recollect.agents.maddpg.player import Player
from recollect.agents.maddpg.team import Team
from recollect.envs.interface import AgentGroup
from recollect.errors import OptionError
from recollect.learn import linear

if TYPE_CHECKING:
    from recollect.agents.maddpg.config import MADDPGConfig

__all__ = ["MADDPG"]


@final
class MADDPG:
    """Policies and critics of all agents.

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
        self._teams = [Team(config, groups, index, self.random) for index in range(len(groups))]
        self.updates = 0

    def player(self, num_envs: int, *, explore: bool) -> Player:
        """The agents, ready to play in some environments."""
        return Player(self.config, self._teams, num_envs, self.random if explore else None)

    # ---- learning --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def update(self, batch: Mapping[str, Any]) -> tuple[dict[str, float], np.ndarray[Any, Any]]:
        """One step of all networks; returns losses by name, and each row's error ``[B]`` for priorities."""
        self.updates += 1
        pace = linear(1.0, self.config.lr_end, self.config.lr_steps, self.updates * self.config.update_every)
        discount, weights = torch.from_numpy(batch["discount"]), batch.get("weights")
        weight = None if weights is None else torch.from_numpy(np.asarray(weights, np.float32))
        parts = [team.read(batch) for team in self._teams]
        joint = torch.cat([p.obs.flatten(1) for p in parts] + [p.codes.flatten(1) for p in parts], dim=1)
        nexts = [team.target_codes(part, self.random) for team, part in zip(self._teams, parts, strict=True)]
        flat = [code.transpose(0, 1).flatten(1) for code in nexts]
        joint_next = torch.cat([p.next_obs.flatten(1) for p in parts] + flat, dim=1)
        losses: dict[str, Tensor] = {}
        errors = torch.zeros(len(discount))
        if self.config.infer:
            deeds = [team.deeds(part) for team, part in zip(self._teams, parts, strict=True)]
            obs = [part.next_obs.transpose(0, 1) for part in parts]
            allowed = [None if p.next_allowed is None else p.next_allowed.transpose(0, 1) for p in parts]
        for team, part, codes in zip(self._teams, parts, nexts, strict=True):
            ahead = joint_next
            if team.guesses is not None:
                losses[team.group.key("guess_loss")] = team.guesses.learn(deeds, pace)
                ahead = team.guesses.joint(obs, codes, allowed)
            loss, error = team.learn_values(part, joint, ahead, codes, discount, weight, pace)
            losses[team.group.key("critic_loss")] = loss
            errors += error
        if self.updates % self.config.delay == 0:
            for team, part in zip(self._teams, parts, strict=True):
                losses[team.group.key("actor_loss")] = team.learn_policy(part, joint, self.random, pace)
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
