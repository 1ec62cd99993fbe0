"""Bounds of algorithms' settings."""

from __future__ import annotations

import dataclasses
import math
import typing
from functools import cache
from typing import Any, NamedTuple

from relive.errors import OptionError

__all__ = ["AT_LEAST_0", "AT_LEAST_1", "POSITIVE", "UNIT", "Bounds", "check"]


class Bounds(NamedTuple):
    """The interval that a setting lies in; ``open_at_0`` excludes 0 itself."""

    least: float = 0.0
    most: float = math.inf
    open_at_0: bool = False


UNIT, POSITIVE, AT_LEAST_0, AT_LEAST_1 = Bounds(0, 1), Bounds(open_at_0=True), Bounds(0), Bounds(1)
_POSITIVE_UNIT = Bounds(0, 1, open_at_0=True)

# Of settings that mean the same in every algorithm; numbers that are not listed are at least 0.
_BOUNDS: dict[str, Bounds] = {
    **dict.fromkeys(("gamma", "gae_lambda", "td_lambda", "per_alpha", "per_beta", "priority_eta"), UNIT),
    **dict.fromkeys(("target_tau", "target_entropy", "epsilon", "epsilon_start", "epsilon_end"), UNIT),
    **dict.fromkeys(("tau", "lr_end"), _POSITIVE_UNIT),
    **dict.fromkeys(("lr", "actor_lr", "critic_lr", "eps", "alpha", "temperature"), POSITIVE),
    **dict.fromkeys(("temperature_start", "temperature_end"), POSITIVE),
    **dict.fromkeys(("batch_size", "buffer_size", "update_every", "n_step", "lr_steps", "policy_delay"), AT_LEAST_1),
    **dict.fromkeys(("rollout", "epochs", "critic_epochs", "minibatches", "chunk_length", "length"), AT_LEAST_1),
    **dict.fromkeys(("target_update_interval", "hidden", "mixing_units"), AT_LEAST_1),
    **dict.fromkeys(("v_min", "v_max"), Bounds(-math.inf)),
    "atoms": Bounds(2),
    "ensemble": Bounds(1, 256),
    "frame_stack": Bounds(1, 64),
    "log_std": Bounds(-20, 2),
}


def check(settings: Any, *, layers: int = 1, **bounds: Bounds) -> None:
    """Refuse a setting that is none of its choices, or out of bounds.

    Args:
        layers: Hidden layers that there have to be, where a setting lists their units.
        bounds: Of settings that differ from those of the same name in other algorithms.
    """
    kind: Any = type(settings)
    choices = _choices(kind)
    for field in dataclasses.fields(settings):
        name, value = field.name, getattr(settings, field.name)
        if name in choices:
            if value not in choices[name]:
                raise OptionError(name, f"be one of {', '.join(choices[name])}", repr(value))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            _check_bounds(name, value, bounds.get(name, _BOUNDS.get(name, AT_LEAST_0)))
        elif name == "hidden" and (len(value) < layers or any(units < 1 for units in value)):
            raise OptionError(name, "be units of at least one layer" if layers else "be units of layers", value)
    if getattr(settings, "rnn", "gru") != "gru" and not getattr(settings, "recurrent", True):
        raise OptionError("rnn", "be gru where networks are not recurrent", repr(settings.rnn), "Add --recurrent.")


def _check_bounds(name: str, value: float, bounds: Bounds) -> None:
    least, most, open_at_0 = bounds
    if not (least <= value <= most and math.isfinite(value)):
        rule = f"be from {least:g} to {most:g}" if math.isfinite(most) else f"be finite and at least {least:g}"
        raise OptionError(name, rule, value)
    if open_at_0 and value == 0:
        raise OptionError(name, "be above 0", value)


@cache
def _choices(kind: Any) -> dict[str, tuple[str, ...]]:
    """The choices of settings that have such, from their types."""
    hints = typing.get_type_hints(kind)
    return {name: typing.get_args(hint) for name, hint in hints.items() if typing.get_origin(hint) is typing.Literal}
