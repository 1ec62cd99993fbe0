"""Values of nested spaces by the names of fields, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from relive.envs.adapters.single_env import flat, is_number, leaves, nest, seed31, stack

LEAVES = st.sampled_from([spaces.Discrete(5, start=-2), spaces.Box(-1, 1, (2, 3)), spaces.MultiDiscrete([2, 3])])
NESTED = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3).map(spaces.Dict),
        st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
    ),
    max_leaves=6,
)


def same(one: Any, two: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for name, value in one.items():
            same(value, two[name])
    elif isinstance(one, tuple):
        assert len(one) == len(two)
        for value, other in zip(one, two, strict=True):
            same(value, other)
    else:
        assert np.asarray(one).dtype == np.asarray(two).dtype
        np.testing.assert_array_equal(one, two)


@given(NESTED, st.integers(0, 2**31 - 1))
def test_values_come_back_as_they_were(space: Any, seed: int) -> None:
    space.seed(seed)
    value = space.sample()
    parts = flat(space, value, "obs")
    assert list(parts) == list(leaves(space, "obs"))
    same(nest(space, parts, "obs"), value)
    assert space.contains(nest(space, parts, "obs"))


def test_names_say_the_way() -> None:
    space = spaces.Dict(a=spaces.Discrete(3), b=spaces.Tuple([spaces.Discrete(4), spaces.Dict(c=spaces.Discrete(2))]))
    found = flat(space, {"a": 2, "b": (1, {"c": 0})}, "obs")
    assert {name: int(part) for name, part in found.items()} == {"obs/a": 2, "obs/b/0": 1, "obs/b/1/c": 0}


def test_parts_are_copies() -> None:
    array = np.zeros(3)
    found = flat(spaces.Box(-1, 1, (3,)), array, "obs")["obs"]
    array[:] = 7
    assert (found == 0).all()


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *((value, True) for value in (1, True, 0.5, np.float32(1), np.bool_(True), np.array(3))),
        *((value, False) for value in ("1", None, np.zeros(1), np.array("x"), [1])),
    ],
)
def test_what_is_a_number(value: Any, number: bool) -> None:
    assert is_number(value) == number


def test_seeds_have_31_bits() -> None:
    assert [seed31(seed) for seed in (None, 5, 2**31, 2**64 - 1)] == [None, 5, 0, 2**31 - 1]


def test_environments_come_first() -> None:
    found = stack([{"a": np.arange(2), "b": np.array(1)}, {"a": np.arange(2) + 5, "b": np.array(2)}])
    assert {name: value.tolist() for name, value in found.items()} == {"a": [[0, 1], [5, 6]], "b": [1, 2]}
