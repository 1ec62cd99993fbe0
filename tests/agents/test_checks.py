"""Bounds of settings: the same names have the same bounds in every algorithm, and messages are complete."""

from dataclasses import dataclass
from typing import Literal

import pytest

from refusals import refused
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
    ("given", "about"),
    [
        ({"gamma": 1.5}, "gamma"),
        ({"gamma": float("nan")}, "gamma"),
        ({"lr": 0.0}, "lr"),
        ({"lr": -1.0}, "lr"),
        ({"n_step": 0}, "n_step"),
        ({"steps": -1}, "steps"),
        ({"hidden": ()}, "hidden"),
        ({"hidden": (8, 0)}, "hidden"),
        ({"kind": "c"}, "kind"),
    ],
)
def test_what_is_out_of_bounds_is_refused(given: dict, about: str) -> None:
    check(Settings())
    with refused(OptionError, about):
        check(Settings(**given))


def test_bounds_of_an_algorithm_come_first() -> None:
    check(Settings(n_step=0), n_step=AT_LEAST_0)
    check(Settings(hidden=()), layers=0)
    with refused(OptionError, "steps", got="10"):
        check(Settings(), steps=Bounds(1, 5))
