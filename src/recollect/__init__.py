"""Experience memory for reinforcement learning, one agent or many.

>>> import recollect as rc
>>> schema = rc.Schema(obs=rc.Field((4,)), action=rc.Field((), "uint8"))
>>> memory = rc.Memory(schema, capacity=1000, lanes=2, window=rc.NStep(3, gamma=0.99), seed=0)
"""

import importlib as _importlib
import typing as _typing

from recollect import errors
from recollect.memory import (
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
from recollect.schema import Field, Group, Schema
from recollect.tensors import to_torch

if _typing.TYPE_CHECKING:
    from recollect import distributed
    from recollect.train.policy import load_policy
    from recollect.web.start import serve

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
        from recollect.train.policy import load_policy

        return load_policy
    if name == "serve":  # needs Starlette and uvicorn
        from recollect.web.start import serve

        return serve
    if name == "distributed":  # for Ray
        return _importlib.import_module("recollect.distributed")
    raise AttributeError(f"module 'recollect' has no attribute {name!r}")
