"""Experience memory for reinforcement learning, one agent or many.

>>> import relive as rl
>>> schema = rl.Schema(obs=rl.Field((4,)), action=rl.Field((), "uint8"))
>>> memory = rl.Memory(schema, capacity=1000, lanes=2, window=rl.NStep(3, gamma=0.99), seed=0)
"""

import importlib as _importlib
import typing as _typing

from relive import errors
from relive.memory import (
    Batch,
    Episodes,
    FrameStack,
    Hindsight,
    LinearSchedule,
    Mapped,
    Memory,
    NStep,
    Prefetch,
    Prioritized,
    Ram,
    Recent,
    Rollout,
    Sampler,
    Sequence,
    Shared,
    Shuffled,
    Transition,
    Uniform,
    Window,
    Writer,
    targets,
)
from relive.schema import Field, Group, Schema
from relive.tensors import to_torch

if _typing.TYPE_CHECKING:
    from relive import agents, distributed, envs
    from relive.training import resume, train
    from relive.training.policy import load_policy
    from relive.web.start import serve

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Episodes",
    "Field",
    "FrameStack",
    "Group",
    "Hindsight",
    "LinearSchedule",
    "Mapped",
    "Memory",
    "NStep",
    "Prefetch",
    "Prioritized",
    "Ram",
    "Recent",
    "Rollout",
    "Sampler",
    "Schema",
    "Sequence",
    "Shared",
    "Shuffled",
    "Transition",
    "Uniform",
    "Window",
    "Writer",
    "agents",
    "distributed",
    "envs",
    "errors",
    "load_policy",
    "resume",
    "serve",
    "targets",
    "to_torch",
    "train",
]


_LATE = {  # imported when they are asked for: they need torch, Gymnasium, Ray or Starlette, which nothing above does
    "agents": "relive.agents",
    "distributed": "relive.distributed",
    "envs": "relive.envs",
    "load_policy": "relive.training.policy",
    "resume": "relive.training",
    "serve": "relive.web.start",
    "train": "relive.training",
}


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module 'relive' has no attribute {name!r}")
    module = _importlib.import_module(_LATE[name])
    return module if module.__name__ == f"relive.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
