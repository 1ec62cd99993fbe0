"""Transforms of an episode batch."""

from __future__ import annotations

from typing import Any

import torch as th

from pymarl_plain import ACTIONS, GROUPS, SCHEME, shape_of
from relive.compat.pymarl import EpisodeBatch, OneHot


class Doubled:
    """A transform of someone else's."""

    def transform(self, tensor: Any) -> Any:
        return tensor.float() * 2

    def infer_output_info(self, vshape: Any, dtype: Any) -> Any:
        return vshape, th.float32


def test_any_transforms_are_applied_one_after_the_other() -> None:
    preprocess = {"actions": ("twice", [OneHot(ACTIONS), Doubled()]), "reward": ("more", [Doubled()])}
    batch = EpisodeBatch(SCHEME, GROUPS, 1, 2, preprocess=preprocess)
    assert batch.scheme["twice"] == {"vshape": (4,), "dtype": th.float32, "group": "agents"}
    batch.update({"actions": [[1, 3]], "reward": [(4.0,)]}, ts=1)
    assert batch["twice"][0, 1].tolist() == [[0, 2, 0, 0], [0, 0, 0, 2]]
    assert batch["more"][0, :, 0].tolist() == [0, 8]


def test_one_hot() -> None:
    numbers = th.tensor([[[0]], [[2]]])
    assert OneHot(3).transform(numbers).tolist() == [[[1, 0, 0]], [[0, 0, 1]]]
    assert OneHot(3).infer_output_info((1,), th.long) == ((3,), th.float32)
    assert shape_of("obs") == (2, 3)
    pair = EpisodeBatch({"x": {"vshape": (2,), "dtype": th.long}}, {}, 1, 1, preprocess={"x": ("h", [OneHot(2)])})
    pair.update({"x": [[0, 1]]}, ts=0)
    assert pair["h"].tolist() == [[[1, 1]]]
