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
    Linear,
    Mapped,
    Memory,
    Nest,
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
    from relive import distributed
    from relive.train.policy import load_policy
    from relive.web.start import serve

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Episodes",
    "Field",
    "FrameStack",
    "Group",
    "Hindsight",
    "Linear",
    "Mapped",
    "Memory",
    "NStep",
    "Nest",
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
    "distributed",
    "errors",
    "load_policy",
    "serve",
    "targets",
    "to_torch",
]


def __getattr__(name: str) -> object:
    if name == "load_policy":  # needs torch, which nothing else here does
        from relive.train.policy import load_policy

        return load_policy
    if name == "serve":  # needs Starlette and uvicorn
        from relive.web.start import serve

        return serve
    if name == "distributed":  # for Ray
        return _importlib.import_module("relive.distributed")
    raise AttributeError(f"module 'relive' has no attribute {name!r}")
