"""Episodes for PyMARL's replay: played by chance, or numbered."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th

from pymarl_plain import ACTIONS, AGENTS, GROUPS, SCHEME, blank_episode, one_hot
from relive.compat.pymarl import EpisodeBatch, OneHot, PrioritizedReplayBuffer, ReplayBuffer

PREPROCESS = {"actions": ("actions_onehot", [OneHot(ACTIONS)])}


class Player:
    """Plays episodes into batches, and remembers them plainly."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)

    def play(self, lengths: list[int], steps: int, *, big: bool = False) -> tuple[EpisodeBatch, list[dict[str, Any]]]:
        batch = EpisodeBatch(SCHEME, GROUPS, len(lengths), steps, preprocess=PREPROCESS)
        plain = [blank_episode(steps) for _ in lengths]
        goal, kind = self.random.normal(size=(len(lengths), 2)).astype(np.float32), self.random.integers(0, 9, (2, 1))
        batch.update({"goal": goal, "kind": np.stack([kind] * len(lengths))})
        for k, episode in enumerate(plain):
            episode["goal"], episode["kind"] = goal[k], kind
        for t in range(max(lengths) + 1):
            going = [k for k, length in enumerate(lengths) if t <= length]
            data: dict[str, Any] = {
                "state": self.random.normal(size=(len(going), 5)).astype(np.float32),
                "obs": self.random.normal(size=(len(going), AGENTS, 3)).astype(np.float32),
                "avail_actions": self.random.integers(0, 2, (len(going), AGENTS, ACTIONS)) * (1000 if big else 1),
            }
            batch.update(data, bs=going, ts=t)
            stepping = [k for k in going if t < lengths[k]]
            more: dict[str, Any] = {
                "actions": self.random.integers(0, ACTIONS, (len(stepping), AGENTS, 1)),
                "reward": self.random.normal(size=(len(stepping), 1)).astype(np.float32),
                "terminated": np.array([[t + 1 == lengths[k]] for k in stepping]).reshape(-1, 1),
            }
            if stepping:
                batch.update(more, bs=stepping, ts=t, mark_filled=False)
            for names, part in ((going, data), (stepping, more)):
                for i, k in enumerate(names):
                    for name, value in part.items():
                        plain[k][name][t] = value[i]
            for i, k in enumerate(stepping):
                plain[k]["actions_onehot"][t] = one_hot(more["actions"][i])
            for k in going:
                plain[k]["filled"][t] = 1
        return batch, plain


def numbered(numbers: list[int], size: int = 5) -> tuple[ReplayBuffer, EpisodeBatch]:
    scheme = {"x": {"vshape": (1,), "dtype": th.long}}
    batch = EpisodeBatch(scheme, {}, len(numbers), 3)
    batch.update({"x": np.array(numbers)[:, None, None]}, ts=0)
    return ReplayBuffer(scheme, {}, size, 3, seed=0), batch


def prioritised(size: int = 4, **options: Any) -> tuple[PrioritizedReplayBuffer, Any]:
    scheme = {"x": {"vshape": (1,), "dtype": th.long}}

    def episodes(*numbers: int) -> EpisodeBatch:
        batch = EpisodeBatch(scheme, {}, len(numbers), 2)
        batch.update({"x": np.array(numbers)[:, None, None]}, ts=0)
        return batch

    settings = {"alpha": 1.0, "beta": 0.5, "t_max": 100, "seed": 0} | options
    return PrioritizedReplayBuffer(scheme, {}, size, 2, **settings), episodes
