"""Whatever numbers Python hands the core, it stays within its arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relive import _core

STEP = (0, 1, 0, 0, 1.0, False, False, False)
UNIFORM = ("uniform", 0.0, 0.0, False)
INT64 = np.dtype(np.int64).num
FLOAT64 = np.dtype(np.float64).num
BOOL = np.dtype(bool).num


def store(**changes: Any) -> _core.Store:
    options = {"lanes": 1, "span": 10, "bare": True, "loose": False, "pitches": [8]}
    return _core.Store(**(options | {"columns": [("a", None, INT64, (), 0, 0)]} | changes))


def filled() -> _core.Store:
    made = store()
    for i in range(12):
        assert made.append({"a": i, "terminated": i % 3 == 2, "truncated": False}, None, False)
    return made


@pytest.mark.parametrize(
    "changes",
    [
        {"lanes": 0},
        {"lanes": -1},
        {"lanes": 2},
        {"span": 1},
        {"span": 2**60},
        {"pitches": [0]},
        {"pitches": []},
        {"pitches": [2**60]},
        {"columns": [("a", None, INT64, (), 0, 1)]},
        {"columns": [("a", None, INT64, (), 0, -8)]},
        {"columns": [("a", None, INT64, (2,), 0, 0)]},
        {"columns": [("a", None, INT64, (), 1, 0)]},
        {"columns": [("a", None, INT64, (-1,), 0, 0)]},
        {"columns": [("a", None, INT64, (2**62,), 0, 0)]},
        {"columns": [("a", None, np.dtype(object).num, (), 0, 0)]},
        {"columns": [("a", None, INT64)]},
    ],
)
def test_stores(changes: dict[str, Any]) -> None:
    with pytest.raises((ValueError, RuntimeError)):
        store(**changes)


@pytest.mark.parametrize(
    ("outputs", "window", "sampler"),
    [
        ([("a", 0, 0, 1, INT64, (1,) * 5000)], STEP, UNIFORM),
        ([("a", 0, 0, 1, np.dtype(object).num, ())], STEP, UNIFORM),
        ([("a", 0, 0, 1, FLOAT64, ())], STEP, UNIFORM),
        ([("a", 0, 1, 1, INT64, ())], STEP, UNIFORM),
        ([("a", 0, -1, 1, INT64, ())], STEP, UNIFORM),
        ([("a", 0, 0, 4, INT64, (4,))], STEP, UNIFORM),
        ([("a", 0, 0, 1, INT64, (2,))], STEP, UNIFORM),
        ([("a", 1, 0, 1, INT64, ())], STEP, UNIFORM),
        ([("a", 3, 0, 1, INT64, ())], STEP, UNIFORM),
        ([("a", 7, 0, 1, INT64, ())], STEP, UNIFORM),
        ([("a", 99, 0, 1, INT64, ())], STEP, UNIFORM),
        ([("a", 0)], STEP, UNIFORM),
        ([("w", 13, -1, 1, INT64, ())], STEP, UNIFORM),
        ([("m", 11, -1, 1, BOOL, ())], (2, 0, 0, 0, 1.0, False, False, True), UNIFORM),
        ([], (0, 0, 0, 0, 1.0, False, False, False), UNIFORM),
        ([], (0, 1, -1, 0, 1.0, False, False, False), UNIFORM),
        ([], (7, 1, 0, 0, 1.0, False, False, False), UNIFORM),
        ([], (0, 1, 0, 0, float("nan"), False, False, False), UNIFORM),
        ([], (0, 1, 0, 0, 1.0, True, False, False), UNIFORM),
        ([], (0, 1), UNIFORM),
        ([], STEP, ()),
        ([], STEP, ("oracle", 0.0, 0.0, False)),
        ([], STEP, ("prioritized", float("nan"), 1.0, True)),
        ([], STEP, ("prioritized", 0.5, float("inf"), True)),
    ],
)
def test_readers(outputs: list[Any], window: tuple[Any, ...], sampler: tuple[Any, ...]) -> None:
    with pytest.raises((ValueError, RuntimeError)):
        _core.Reader(filled(), outputs, window, sampler, 1, 2)


@pytest.mark.parametrize("size", [0, -1, 2**40])
def test_sizes(size: int) -> None:
    reader = _core.Reader(filled(), [], STEP, UNIFORM, 1, 2)
    with pytest.raises(ValueError, match="size out of range"):
        reader.sample(size, 0.0, 1)


def test_rows_from_nowhere() -> None:
    reader = _core.Reader(filled(), [("a", 0, 0, 1, INT64, ())], STEP, UNIFORM, 1, 2)
    for lane, serial in [(-1, 0), (1, 0), (2**40, 0), (0, -1), (0, 2**62), (0, -(2**62))]:
        assert reader.read([lane], [serial], 1) == 0
    with pytest.raises(ValueError, match="sizes differ"):
        reader.read([0, 0], [0], 1)
    with pytest.raises(ValueError, match="no rows given"):
        reader.read([], [], 1)
    with pytest.raises(ValueError, match="this sampler has no priorities"):
        reader.update_priorities([0], [5], np.ones(1))


def test_lanes_and_fields_from_nowhere() -> None:
    made = filled()
    for call in (
        lambda: made.cut(1),
        lambda: made.cut(-1),
        lambda: made.view(1, False),
        lambda: made.view(-1, False),
        lambda: made.forget(1, 0),
    ):
        with pytest.raises(IndexError):
            call()


def test_scans_want_one_shape_and_type() -> None:
    good, flags = np.zeros((3, 2)), np.zeros((3, 2), bool)
    for bad in (np.zeros((2, 2)), np.zeros((3, 2), np.float32), np.zeros((3, 4))[:, ::2], None, [1.0]):
        with pytest.raises((ValueError, TypeError)):
            _core.gae(good, bad, good, flags, None, None, 0.9, 0.9)
    with pytest.raises((ValueError, TypeError)):
        _core.gae(good, good, good, flags.view(np.uint8), None, None, 0.9, 0.9)


def test_a_step_is_taken_or_left() -> None:
    """The fast path says no to whatever it does not know, and stores nothing."""
    made = store()
    good = {"a": 1, "terminated": False, "truncated": False}
    odd: list[dict[str, Any]] = [
        {"a": 1.5},
        {"a": "x"},
        {"a": None},
        {"a": [1, 2]},
        {"a": 2**70},
        {"b": 1},
        {"terminated": 3},
        {"truncated": "no"},
    ]
    for change in odd:
        assert made.append(good | change, None, False) is False
    assert made.append({"a": 1}, None, False) is False
    assert made.append(good, 5, False) is False
    assert made.append(good, [0, 0], False) is False
    assert made.append(good, None, True) is False
    assert made.steps() == 0
    assert made.append(good, None, False) is True
