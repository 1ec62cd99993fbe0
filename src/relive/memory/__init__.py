"""Timeline, samplers, windows and targets: NumPy and the core, nothing else."""

from relive.memory import targets
from relive.memory.batch import Batch, Nest
from relive.memory.frames import FrameStack
from relive.memory.hindsight import Hindsight
from relive.memory.inspection import Inspection
from relive.memory.memory import Memory
from relive.memory.prefetch import Prefetch
from relive.memory.rollout import Rollout
from relive.memory.samplers import LinearSchedule, Prioritized, Recent, Sampler, Shuffled, Uniform
from relive.memory.storage import Mapped, Ram, Shared, Storage
from relive.memory.transfer import Transfer
from relive.memory.windows import Episodes, NStep, Sequence, Transition, Window
from relive.memory.writer import Writer

__all__ = [
    "Batch",
    "Episodes",
    "FrameStack",
    "Hindsight",
    "Inspection",
    "LinearSchedule",
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
    "Transfer",
    "Transition",
    "Uniform",
    "Window",
    "Writer",
    "targets",
]
