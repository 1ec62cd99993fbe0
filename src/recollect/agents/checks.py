"""What settings of algorithms have to be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from recollect.errors import OptionError

__all__ = ["check"]


def check(
    settings: Any,
    choices: Mapping[str, tuple[str, ...]],
    ranges: Mapping[str, tuple[float, float]],
    above_zero: Sequence[str] = (),
) -> None:
    """Refuse settings that are none of some choices, or lie outside of their ranges."""
    for name, allowed in choices.items():
        if getattr(settings, name) not in allowed:
            raise OptionError(name, f"be one of {', '.join(allowed)}", repr(getattr(settings, name)))
    for name, (least, most) in ranges.items():
        value = getattr(settings, name)
        if not (least <= value <= most and math.isfinite(value)):
            rule = f"be from {least:g} to {most:g}" if math.isfinite(most) else f"be finite and at least {least:g}"
            raise OptionError(name, rule, value)
    for name in above_zero:
        if getattr(settings, name) == 0:
            raise OptionError(name, "be above 0", getattr(settings, name))
