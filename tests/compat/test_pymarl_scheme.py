"""Schemes of an episode batch."""

from __future__ import annotations

import copy

import torch as th

import relive as rl
from pymarl_plain import ACTIONS, GROUPS, SCHEME
from refusals import refused
from relive.compat.pymarl import EpisodeBatch, OneHot

PREPROCESS = {"actions": ("actions_onehot", [OneHot(ACTIONS)])}


def test_setup_has_the_documented_shapes_and_dtypes() -> None:
    scheme = copy.deepcopy(SCHEME)
    batch = EpisodeBatch(scheme, GROUPS, 3, 6, preprocess=PREPROCESS)
    assert scheme == SCHEME
    assert batch["state"].shape == (3, 6, 5)
    assert batch["obs"].shape == (3, 6, 2, 3)
    assert batch["actions_onehot"].shape == (3, 6, 2, 4)
    assert batch["goal"].shape == (3, 2)
    assert batch["kind"].shape == (3, 2, 1)
    assert batch["filled"].shape == (3, 6, 1)
    assert batch["filled"].dtype == th.int64
    assert batch.scheme["state"]["vshape"] == 5
    assert batch.scheme["actions_onehot"] == {"vshape": (4,), "dtype": th.float32, "group": "agents"}
    assert batch.scheme["filled"] == {"vshape": (1,), "dtype": th.long}
    assert all(not tensor.any() for tensor in batch.data.transition_data.values())
    assert set(batch.data.episode_data) == {"goal", "kind"}
    assert batch.device == "cpu"
    made = EpisodeBatch(SCHEME, GROUPS, 1, 2, preprocess={"kind": ("kind_onehot", [OneHot(3)])})
    assert made["kind_onehot"].shape == (1, 2, 3)


def test_schemes_that_cannot_be() -> None:
    with refused(rl.errors.OptionError, "scheme"):
        EpisodeBatch({"filled": {"vshape": (1,)}}, {}, 1, 1)
    with refused(rl.errors.OptionError, "groups", got="none"):
        EpisodeBatch({"obs": {"vshape": 3, "group": "agents"}}, {}, 1, 1)
    with refused(rl.errors.OptionError, "preprocess", got="'y'"):
        EpisodeBatch({"x": {"vshape": 3}}, {}, 1, 1, preprocess={"y": ("z", [])})
    with refused(rl.errors.OptionError, "scheme['x']"):
        EpisodeBatch({"x": {}}, {}, 1, 1)
    with refused(rl.errors.OptionError, "dtype"):
        EpisodeBatch({"x": {"vshape": 1, "dtype": float}}, {}, 1, 1)
