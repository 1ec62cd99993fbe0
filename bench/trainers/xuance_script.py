"""A program of XuanCe's as its users write them: some steps of one algorithm; prints what it cost and what it learned.

python xuance_script.py NAME STEPS                    (with XuanCe's memories)
relive-with xuance -- xuance_script.py NAME STEPS       (with ours; --aligned: ours, drawing what XuanCe's would)
"""

from __future__ import annotations

import importlib
import json
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import mpe2
import numpy as np
import torch

LOSS = torch.nn.HuberLoss
MANY = "mpe", "simple_spread_v3"
ONE = "classic_control", "CartPole-v1"
CONTINUOUS = "classic_control", "Pendulum-v1"
SEED = 1


def huber(**options: Any) -> Any:
    """Torch's loss: XuanCe's COMA makes one with a delta of None, which torch refuses, and does not use it."""
    return LOSS(**{**options, "delta": options.get("delta") or 1.0})


def watch(memory: Any) -> list[float]:
    """CPU seconds that a memory's methods take from now on, in a list of one number."""
    spent, depth = [0.0], [0]
    names = ("store", "sample", "finish_path", "clear", "update_priorities", "clear_episodes")

    def timed(method: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            depth[0] += 1
            start = time.process_time()
            try:
                return method(*args, **kwargs)
            finally:
                depth[0] -= 1
                if depth[0] == 0:
                    spent[0] += time.process_time() - start

        return call

    for name in names:
        if hasattr(memory, name):
            setattr(memory, name, timed(getattr(memory, name)))
    return spent


def main() -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    name, steps = sys.argv[1], int(sys.argv[2])
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002 - as they do
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    sys.modules["pettingzoo.mpe"] = mpe2  # where newer versions of PettingZoo have it no more
    sys.modules["pettingzoo.mpe.simple_spread_v3"] = importlib.import_module("mpe2.simple_spread_v3")
    torch.nn.HuberLoss = huber  # type: ignore[assignment, misc]
    os.chdir(tempfile.mkdtemp())
    from xuance.common import get_arguments
    from xuance.environment import make_envs
    from xuance.torch.agents import REGISTRY_Agents

    many = (Path(importlib.import_module("xuance").__file__ or "").parent / "configs" / name / "mpe").is_dir()
    task = MANY if many else CONTINUOUS if name in ("sac", "td3") else ONE
    config = get_arguments(name, *task)
    config.device, config.logger = "cpu", "tensorboard"
    config.distributed_training = False
    config.vectorize = "DummyVecMultiAgentEnv" if many else "DummyVecEnv"
    config.env_seed = config.seed = SEED
    config.running_steps = steps
    envs = make_envs(config)
    envs.reset()
    for space in envs.action_space.values() if many else [envs.action_space]:
        space.seed(SEED)  # what they explore by
    agents: Any = REGISTRY_Agents[config.agent](config, envs)
    if "--aligned" in sys.argv:
        importlib.import_module("xuance_draws").align(agents.memory)
    losses: list[float] = []

    def log(infos: dict[str, Any], *_: Any) -> None:
        losses.extend(float(v) for key, v in infos.items() if "loss" in key.lower() and np.isscalar(v))

    agents.log_infos, agents.log_videos = log, lambda *_: None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spent, start = watch(agents.memory), time.process_time()
    agents.train(steps // config.parallels)
    kind = type(agents.memory)
    found = {
        "memory": f"{kind.__module__}.{kind.__name__}",
        "seconds": time.process_time() - start,
        "in_memory": spent[0],
        "mebibytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        "losses": losses,
    }
    print(json.dumps(found), file=out)


main()
