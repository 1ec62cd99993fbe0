"""Timeline, samplers, windows and targets: NumPy and the core, nothing else."""

from recollect.memory import targets
from recollect.memory.batch import Batch, Nest
from recollect.memory.frames import FrameStack
from recollect.memory.hindsight import Hindsight
from recollect.memory.memory import Memory
from recollect.memory.prefetch import Prefetch
from recollect.memory.rollout import Rollout
from recollect.memory.samplers import Linear, Prioritized, Recent, Sampler, Shuffled, Uniform
from recollect.memory.storage import Mapped, Ram, Shared, Storage
from recollect.memory.windows import Episodes, NStep, Sequence, Transition, Window
from recollect.memory.writer import Writer

__all__ = [
    "Batch",
    "Episodes",
    "FrameStack",
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
    "Sequence",
    "Shared",
    "Shuffled",
    "Storage",
    "Transition",
    "Uniform",
    "Window",
    "Writer",
    "targets",
]
