"""A padded episode batch and a replay buffer as nested Python lists: slow, and plain enough to be believed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th

SCHEME: dict[str, Any] = {
    "state": {"vshape": 5},
    "obs": {"vshape": (3,), "group": "agents"},
    "actions": {"vshape": (1,), "group": "agents", "dtype": th.long},
    "avail_actions": {"vshape": (4,), "group": "agents", "dtype": th.int},
    "reward": {"vshape": (1,)},
    "terminated": {"vshape": (1,), "dtype": th.uint8},
    "goal": {"vshape": (2,), "episode_const": True},
    "kind": {"vshape": (1,), "group": "agents", "episode_const": True, "dtype": th.long},
}
GROUPS = {"agents": 2}
AGENTS, ACTIONS = 2, 4


def shape_of(name: str) -> tuple[int, ...]:
    vshape = SCHEME[name]["vshape"]
    shape = (vshape,) if isinstance(vshape, int) else tuple(vshape)
    return (AGENTS, *shape) if "group" in SCHEME[name] else shape


def blank_episode(steps: int) -> dict[str, Any]:
    episode: dict[str, Any] = {}
    for name, about in SCHEME.items():
        lead = () if about.get("episode_const") else (steps,)
        episode[name] = np.zeros((*lead, *shape_of(name)))
    episode["actions_onehot"] = np.zeros((steps, AGENTS, ACTIONS))
    episode["filled"] = np.zeros((steps, 1))
    return episode


def one_hot(actions: Any) -> Any:
    vectors = np.zeros((*actions.shape[:-1], ACTIONS))
    for index in np.ndindex(*actions.shape[:-1]):
        vectors[(*index, int(actions[(*index, 0)]))] = 1.0
    return vectors


class PlainReplay:
    """Episodes in a list with holes for the places that were never used."""

    def __init__(self, size: int, steps: int) -> None:
        self.size, self.steps, self.index, self.there = size, steps, 0, 0
        self.places = [blank_episode(steps) for _ in range(size)]

    def insert(self, episodes: list[dict[str, Any]]) -> None:
        for episode in episodes:
            kept = blank_episode(self.steps)
            for name, value in episode.items():
                if SCHEME.get(name, {}).get("episode_const"):
                    kept[name] = value.copy()
                else:
                    kept[name][: len(value)] = value
            self.places[self.index] = kept
            self.there = max(self.there, self.index + 1)
            self.index = (self.index + 1) % self.size


def check(batch: Any, episodes: list[dict[str, Any]], steps: int | None = None) -> None:
    """The tensors of a batch are those of plain episodes."""
    assert batch.batch_size == len(episodes)
    for name, about in batch.scheme.items():
        const = about.get("episode_const", False)
        plain = np.stack([episode[name] if const else episode[name][:steps] for episode in episodes])
        tensor = batch[name]
        assert tensor.dtype == about.get("dtype", th.float32), name
        np.testing.assert_array_equal(tensor.cpu().numpy(), plain.astype(tensor.cpu().numpy().dtype), err_msg=name)
