"""relive's MASAC, ISAC, MFQ, MFAC or COMA on simple_spread with XuanCe's settings, without evaluation."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from clock import Clock

from ours import train
from relive.agents.registry import find


def main() -> None:
    name, warm = sys.argv[1], int(sys.argv[2])
    algorithm: Any = find(name)
    settings = dict(algorithm.presets["xuance"])
    if "update_every" in vars(algorithm):
        settings["update_every"] = 400  # of 16 environments, 25 steps each
    options = {"continuous_actions": name in ("masac", "isac")}
    train(replace(algorithm, **settings), "simple_spread", 16, Clock(warm, look_every=25), env_options=options)


main()
