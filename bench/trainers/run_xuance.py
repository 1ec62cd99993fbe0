"""XuanCe's agents of many on its simple_spread: its own settings and loop, without evaluation and logs."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from typing import Any

import mpe2
import torch
from clock import Clock

LOSS = torch.nn.HuberLoss


def huber(**options: Any) -> Any:
    """Torch's loss: XuanCe's COMA makes one with a delta of None, which torch refuses, and does not use it."""
    return LOSS(**{**options, "delta": options.get("delta") or 1.0})


def main() -> None:
    name, warm = sys.argv[1], int(sys.argv[2])
    clock = Clock(warm, look_every=25)
    torch.set_num_threads(1)
    sys.modules["pettingzoo.mpe"] = mpe2  # where newer versions of PettingZoo have it no more
    sys.modules["pettingzoo.mpe.simple_spread_v3"] = importlib.import_module("mpe2.simple_spread_v3")
    torch.nn.HuberLoss = huber  # type: ignore[assignment, misc]
    os.chdir(tempfile.mkdtemp())
    from xuance.common import get_arguments
    from xuance.environment import make_envs
    from xuance.torch.agents import REGISTRY_Agents

    config = get_arguments(name, "mpe", "simple_spread_v3")
    config.device, config.logger = "cpu", "tensorboard"
    config.distributed_training, config.vectorize = False, "DummyVecMultiAgentEnv"  # as its others do by default
    envs = make_envs(config)
    envs.reset()
    agents: Any = REGISTRY_Agents[config.agent](config, envs)
    agents.log_infos = agents.log_videos = lambda *_: None
    step = envs.step

    def stepped(actions: Any) -> Any:
        clock.tick(config.parallels)
        return step(actions)

    envs.step = stepped
    agents.train(10**9)


main()
