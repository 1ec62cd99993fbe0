"""Bytes a transition: relive's memory against arrays of obs and next_obs, for the same transitions.

python sizes.py
"""

from __future__ import annotations

from typing import Any

import relive as rl

STEPS = 1000
"""Steps of an episode; each has one closing row."""


def plain(*fields: rl.Field) -> float:
    """Bytes a transition of arrays that hold every field."""
    return float(rl.Schema(**{f"f{i}": field for i, field in enumerate(fields)}, reward=None).row_nbytes)


def ours(schema: rl.Schema, **options: Any) -> float:
    """Bytes a transition of a memory, closing rows, flags and index included."""
    rows = 100 * (STEPS + 1)
    return rl.Memory(schema, rows, **options).nbytes / (100 * STEPS)


def main() -> None:
    """Print the table."""
    reward, done, flag = rl.Field(), rl.Field(), rl.Field((), "bool")
    byte, vector, action = rl.Field((), "uint8"), rl.Field((17,)), rl.Field((6,))
    image = rl.Field((4, 84, 84), "uint8")
    frames = rl.Schema(obs=rl.Field((84, 84), "uint8"), action=byte)
    table = [
        ("images, stack 4, discrete action", plain(image, image, byte, reward, flag), ours(frames, stack={"obs": 4})),
        (
            "obs 17, discrete action",
            plain(vector, vector, byte, reward, flag),
            ours(rl.Schema(obs=vector, action=byte)),
        ),
        (
            "obs 17, action 6, done as float32",
            plain(vector, vector, action, reward, done),
            ours(rl.Schema(obs=vector, action=action)),
        ),
        (
            "the same with done and timeout as float32",
            plain(vector, vector, action, reward, done, done),
            ours(rl.Schema(obs=vector, action=action)),
        ),
    ]
    print("| row | plain, bytes | relive, bytes | ratio |\n|---|---|---|---|")
    for name, theirs, mine in table:
        print(f"| {name} | {theirs:,.0f} | {mine:,.1f} | {theirs / mine:.2f} |")

    team = rl.Schema(
        obs=rl.Field((4, 40)),
        state=rl.Field((68,)),
        avail_actions=rl.Field((4, 10), "bool"),
        actions=rl.Field((4, 1), "uint8"),
    )
    padded = 5000 * 61 * (4 * (160 + 68 + 40 + 1) + 8 * 4 + 8 + 1 + 4 * 40) / 2**20
    print(f"\n5000 episodes of up to 60 steps, 4 agents (PyMARL's fields): {padded:.0f} MiB padded; here")
    for steps in (60, 40, 25):
        held = rl.Memory(team, 5000 * (steps + 1), window=rl.Episodes()).nbytes
        print(f"- {held / 2**20:.0f} MiB if they have {steps} steps on average")


if __name__ == "__main__":
    main()
