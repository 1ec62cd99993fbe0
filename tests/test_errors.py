"""The tree of errors."""

from __future__ import annotations

import inspect
import pickle

import pytest

from relive import errors


def test_every_error_is_in_the_tree() -> None:
    drawn = errors.__doc__ or ""
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, errors.ReliveError) and not name.startswith("_"):
            assert name in drawn
            assert name in errors.__all__


@pytest.mark.parametrize(
    "error",
    [
        errors.OptionError("a", "b", 3, "d"),
        errors.MissingExtra("torch", "torch"),
        errors.StepError((errors.Problem("a", "b", "c"), errors.Problem("d", "e", "f", "g"))),
    ],
)
def test_errors_travel_between_processes(error: errors.ReliveError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
