"""The generator against NumPy's, and uniform draws against chi-square."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relive import _core

words = st.integers(0, 2**64 - 1)


@given(words, words, st.integers(0, 100))
def test_philox_is_numpys(key0: int, key1: int, position: int) -> None:
    expected = np.random.Philox(key=np.array([key0, key1], np.uint64)).random_raw(position + 20)[position:]
    np.testing.assert_array_equal(_core.philox(key0, key1, position, 20), expected)


@given(st.lists(st.floats(1e-150, 1e150), min_size=1, max_size=9), st.floats(-1.5, 1.5))
def test_powers_are_powers(values: list[float], exponent: float) -> None:
    with np.errstate(over="ignore"):
        expected = np.asarray(values) ** exponent
    np.testing.assert_allclose(_core.powers(values, exponent), expected, rtol=1e-13)


def test_powers_have_the_same_bits_everywhere() -> None:
    """Worked out once; a platform that differs in the last bit would draw other rows."""
    x = np.array([0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 12345.678])
    bits = _core.powers(x, 0.6).view(np.uint64).tolist()
    assert bits == [
        4598196632236683340,
        4604117754880545644,
        4607182418800017408,
        4608422820478404424,
        4609504999736782428,
        4611385097109840932,
        4643722129364498447,
    ]


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan, 5e-324])
def test_powers_refuse_what_they_cannot_do(value: float) -> None:
    with pytest.raises(ValueError, match="power out of range"):
        _core.powers([1.0, value], 0.5)
