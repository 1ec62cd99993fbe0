"""Bounds of settings: the same names have the same bounds in every algorithm, and messages are complete."""

from dataclasses import dataclass
from typing import Literal

import pytest

from relive.agents.checks import AT_LEAST_0, Bounds, check
from relive.errors import OptionError


@dataclass(frozen=True)
class Settings:
    gamma: float = 0.9
    lr: float = 0.1
    n_step: int = 1
    steps: int = 10
    hidden: tuple[int, ...] = (8,)
    kind: Literal["a", "b"] = "a"
    enabled: bool = False


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gamma": 1.5}, "gamma must be from 0 to 1, got 1.5"),
        ({"gamma": float("nan")}, "gamma must be from 0 to 1, got nan"),
        ({"lr": 0.0}, "lr must be above 0, got 0.0"),
        ({"lr": -1.0}, "lr must be finite and at least 0, got -1.0"),
        ({"n_step": 0}, "n_step must be finite and at least 1, got 0"),
        ({"steps": -1}, "steps must be finite and at least 0, got -1"),
        ({"hidden": ()}, "hidden must be units of at least one layer, got ()"),
        ({"hidden": (8, 0)}, "hidden must be units of at least one layer, got (8, 0)"),
        ({"kind": "c"}, "kind must be one of a, b, got 'c'"),
    ],
)
def test_what_is_out_of_bounds_is_refused(given: dict, message: str) -> None:
    check(Settings())
    with pytest.raises(OptionError) as refused:
        check(Settings(**given))
    assert str(refused.value) == message


def test_bounds_of_an_algorithm_come_first() -> None:
    check(Settings(n_step=0), n_step=AT_LEAST_0)
    check(Settings(hidden=()), layers=0)
    with pytest.raises(OptionError, match=r"^steps must be from 1 to 5, got 10$"):
        check(Settings(), steps=Bounds(1, 5))
