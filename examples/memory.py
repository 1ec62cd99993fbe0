"""The memory alone, with NumPy and nothing else: append, windows, priorities, save and load.

pip install .  # in a clone of relive
python examples/memory.py
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import relive as rl

LANES, LENGTH, GAMMA = 4, 20, 0.9


def walk(memory: rl.Memory, steps: int) -> None:
    """Random walks on a line, one in every lane: +1 at 5 terminates, 20 steps truncate."""
    random = np.random.default_rng(0)
    obs, time = np.zeros((LANES, 1)), np.zeros(LANES, int)
    for _ in range(steps // LANES):
        action = random.integers(0, 2, LANES)
        next_obs, time = obs + np.where(action == 1, 1, -1)[:, None], time + 1
        terminated = next_obs[:, 0] >= 5
        truncated = (time >= LENGTH) & ~terminated
        memory.append(
            obs=obs,  # stored once: what follows is read from the next row
            action=action,
            reward=terminated.astype(float),
            terminated=terminated,
            truncated=truncated,
            final_obs=next_obs,  # looked at only where an episode ends, and stored only there
        )
        ended = terminated | truncated
        obs, time = np.where(ended[:, None], 0, next_obs), np.where(ended, 0, time)


def td_learning(memory: rl.Memory, batches: int) -> np.ndarray:
    """V(obs) for obs -20 to 5 by prioritised TD(0); its errors become the priorities of the rows."""
    value = np.zeros(26)
    for _ in range(batches):
        batch = memory.sample(64)  # obs, action, reward, next_obs, discount, weights, ...
        at, after = (batch[name][:, 0].astype(int) + LENGTH for name in ("obs", "next_obs"))
        td_error = batch.reward + batch.discount * value[after] - value[at]  # discount: gamma, 0 where terminated
        np.add.at(value, at, 0.1 * batch.weights * td_error)
        memory.update_priorities(batch, td_error)  # of rows overwritten since they are dropped and counted
    return value


def main() -> None:
    """Fill, read, learn, save, load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    args = parser.parse_args()

    memory = rl.Memory(
        rl.Schema(obs=rl.Field((1,)), action=rl.Field((), "uint8")),
        capacity=50_000,
        lanes=LANES,
        window=rl.Transition(gamma=GAMMA),
        sampler=rl.Prioritized(alpha=0.6, beta=0.4),
        seed=0,
    )
    walk(memory, args.steps)
    print(memory)
    ends = memory.episodes
    print(f"{len(ends.length):,} episodes: {ends.terminated.sum():,} terminated, {ends.truncated.sum():,} truncated")

    value = td_learning(memory, args.steps // 20)
    print(f"V(-5) {value[15]:.3f}  V(0) {value[20]:.3f}  V(3) {value[23]:.3f}  V(4) {value[24]:.3f}")
    effective = memory.inspect.census().effective
    print(f"priorities are worth {effective:,.0f} of {memory.ready:,} rows (effective sample size)")

    with tempfile.TemporaryDirectory() as folder:
        memory.save(Path(folder) / "snapshot")
        again = rl.Memory.load(Path(folder) / "snapshot")
        same = bool((again.sample(8).serials == memory.sample(8).serials).all())
        print(f"loaded: {len(again):,} steps, draws the same batch: {same}")

        # What is stored are rows, so any other window reads them too.
        for window in (rl.NStep(3, gamma=GAMMA), rl.Sequence(8, burn_in=4), rl.Episodes()):
            batch = rl.Memory.load(Path(folder) / "snapshot", window=window, sampler=rl.Uniform()).sample(32)
            print(f"{type(window).__name__:9} obs {batch.obs.shape}  action {batch.action.shape}")


if __name__ == "__main__":
    main()
