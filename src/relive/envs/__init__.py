"""Vectorised multi-agent environments.

env = relive.envs.make("simple_tag", num_envs=64)
memory = relive.Memory(env.schema, capacity=64_000, lanes=env.num_envs)
obs = env.reset(seed=0)
step = env.step(action)
memory.append(**step.row)
"""

from relive.envs.dice import seeds
from relive.envs.interface import AgentGroup, Env, Step
from relive.envs.registry import Entry, entries, find, make, make_drawable, register, registered

__all__ = [
    "AgentGroup",
    "Entry",
    "Env",
    "Step",
    "entries",
    "find",
    "make",
    "make_drawable",
    "register",
    "registered",
    "seeds",
]
