"""How target networks follow the ones that learn, for modules of torch."""

from __future__ import annotations

import torch
from torch import nn

from recollect.errors import OptionError

__all__ = ["copy_module", "follow_module"]


def copy_module(target: nn.Module, source: nn.Module) -> None:
    """A hard update: the target takes all parameters and buffers."""
    follow_module(target, source, 1.0)


@torch.no_grad()
def follow_module(target: nn.Module, source: nn.Module, part: float) -> None:
    """A soft update: parameters go ``part`` of the way. Buffers (running means, counts) are taken as they are.

    >>> target, source = nn.Linear(1, 1), nn.Linear(1, 1)
    >>> follow_module(target, source, 0.01)
    """
    if not 0 < part <= 1:
        raise OptionError("part", "be above 0 and at most 1", part)
    for kind in ("parameters", "buffers"):
        mine, others = (dict(getattr(module, f"named_{kind}")()) for module in (target, source))
        if mine.keys() != others.keys():
            odd = ", ".join(sorted(mine.keys() ^ others.keys()))
            raise OptionError("target", f"have the {kind} that the source has", odd, "Make it by copy.deepcopy.")
        for name, value in mine.items():
            if kind == "buffers" or part == 1.0:
                value.copy_(others[name])
            else:
                value.lerp_(others[name], part)
