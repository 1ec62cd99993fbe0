"""Alice tells Bob a secret over a channel that Eve hears; Alice and Bob share a key."""

from __future__ import annotations

import numpy as np

from relive.envs.particle.bodies import Agent, Colour, Landmark, Scenario
from relive.envs.particle.world import World
from relive.types import Array

__all__ = ["simple_crypto"]

_EVE, _BOB, _ALICE = range(3)
_WORDS = 4
_SECRETS = np.eye(_WORDS)[:2]
_SHOWN: tuple[Colour, Colour] = ((224, 49, 49), (47, 158, 68))


def simple_crypto() -> Scenario:
    """Alice tells Bob a secret over a channel that Eve hears; Alice and Bob share a key."""

    def see(world: World, me: int) -> list[Array]:
        heard = world.said[_ALICE]
        if me == _EVE:
            return [heard]
        key = _SECRETS[world.drawn["key"]].T
        return [key, heard] if me == _BOB else [_SECRETS[world.drawn["goal"]].T, key]

    def reward(world: World) -> Array:
        secret = _SECRETS[world.drawn["goal"]].T
        guesses = world.said[:_ALICE]
        wrong = np.square(guesses - secret).sum(axis=1) * guesses.any(axis=1)
        good = wrong[_EVE] - wrong[_BOB]
        return np.stack([-wrong[_EVE], good, good])

    def report(world: World) -> dict[str, Array]:
        right = world.said[:_ALICE].argmax(axis=1) == world.drawn["goal"]
        return {"bob_right": right[_BOB], "eve_right": right[_EVE]}

    def tint(world: World, index: int) -> dict[int, Colour]:
        return {_BOB: _SHOWN[int(world.drawn["goal"][index])]}

    def talker(name: str, colour: Colour) -> Agent:
        return Agent(name, moves=False, speaks=True, collides=False, colour=colour)

    grey = (90, 98, 110)
    return Scenario(
        name="simple_crypto",
        agents=(talker("eve_0", (134, 46, 156)), talker("bob_0", grey), talker("alice_0", grey)),
        landmarks=tuple(Landmark(f"landmark {i}", colour=_SHOWN[i]) for i in range(2)),
        words=_WORDS,
        draws={"goal": 2, "key": 2},
        see=see,
        reward=reward,
        report=report,
        tint=tint,
    )
