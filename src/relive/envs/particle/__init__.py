"""Particle worlds: the nine scenarios of mpe2, vectorised."""

from relive.envs.particle.bodies import Agent, Landmark, Scenario
from relive.envs.particle.simple import simple
from relive.envs.particle.simple_adversary import simple_adversary
from relive.envs.particle.simple_crypto import simple_crypto
from relive.envs.particle.simple_push import simple_push
from relive.envs.particle.simple_reference import simple_reference
from relive.envs.particle.simple_speaker_listener import simple_speaker_listener
from relive.envs.particle.simple_spread import simple_spread
from relive.envs.particle.simple_tag import simple_tag
from relive.envs.particle.simple_world_comm import simple_world_comm
from relive.envs.particle.world import World

__all__ = [
    "SCENARIOS",
    "Agent",
    "Landmark",
    "Scenario",
    "World",
    "simple",
    "simple_adversary",
    "simple_crypto",
    "simple_push",
    "simple_reference",
    "simple_speaker_listener",
    "simple_spread",
    "simple_tag",
    "simple_world_comm",
]

SCENARIOS = {
    "simple": simple,
    "simple_adversary": simple_adversary,
    "simple_crypto": simple_crypto,
    "simple_push": simple_push,
    "simple_reference": simple_reference,
    "simple_speaker_listener": simple_speaker_listener,
    "simple_spread": simple_spread,
    "simple_tag": simple_tag,
    "simple_world_comm": simple_world_comm,
}
"""Functions that make a scenario from its options, by mpe2's names."""
