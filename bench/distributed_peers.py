"""Batches a second of others' distributed memories; for bench/distributed.py, in environments of their own.

Each holds the same rows and gives the same batches as bench/distributed.py: 256 transitions of 17 and 6 numbers, of
100,000 rows, prioritised where the library can, with errors sent back.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ROWS, SIZE = 100_000, 256
RNG = np.random.default_rng(0)


def columns(rows: int) -> dict[str, Any]:
    return {
        "obs": RNG.standard_normal((rows, 17), np.float32),
        "action": RNG.standard_normal((rows, 6), np.float32),
        "reward": np.ones((rows, 1), np.float32),
        "next_obs": RNG.standard_normal((rows, 17), np.float32),
        "done": np.zeros((rows, 1), bool),
    }


def torchrl() -> Callable[[], None]:
    """Uniform, and no errors sent back: its prioritised sampler does not load with this torch."""
    import torch
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, RayReplayBuffer
    from torchrl.data.replay_buffers.samplers import RandomSampler

    start_ray()
    buffer = RayReplayBuffer(
        storage=lambda: LazyTensorStorage(ROWS),
        sampler=RandomSampler,
        batch_size=SIZE,
        remote_config={"num_cpus": 0},
        ray_init_config={"num_cpus": 4},
    )
    data = {name: torch.from_numpy(value) for name, value in columns(1000).items()}
    for _ in range(ROWS // 1000):
        buffer.extend(TensorDict(data, [1000]))

    def once() -> None:
        buffer.sample()

    return once


def rllib() -> Callable[[], None]:
    """RLlib has no shards: its own prioritised buffer, in an actor."""
    import ray
    from ray.rllib.policy.sample_batch import SampleBatch
    from ray.rllib.utils.replay_buffers import PrioritizedReplayBuffer

    start_ray()
    made = ray.remote(num_cpus=0)(PrioritizedReplayBuffer)
    buffer = made.remote(capacity=ROWS, alpha=0.6)
    given = columns(1000)
    data = {
        "obs": given["obs"],
        "actions": given["action"],
        "rewards": given["reward"][:, 0],
        "new_obs": given["next_obs"],
        "terminateds": given["done"][:, 0],
    }
    for _ in range(ROWS // 1000):
        ray.get(buffer.add.remote(SampleBatch(data), weight=1.0))
    errors = RNG.random(SIZE) + 1e-3
    calls = [buffer.sample.remote(SIZE, beta=0.4) for _ in range(2)]

    def once() -> None:
        batch = ray.get(calls.pop(0))
        buffer.update_priorities.remote(batch["batch_indexes"], errors)
        calls.append(buffer.sample.remote(SIZE, beta=0.4))

    return once


def reverb() -> Callable[[], None]:
    """One row an item, of a server in this process; errors sent back for every batch."""
    import reverb
    import tensorflow as tf

    table = reverb.Table(
        name="rows",
        sampler=reverb.selectors.Prioritized(0.6),
        remover=reverb.selectors.Fifo(),
        max_size=ROWS,
        rate_limiter=reverb.rate_limiters.MinSize(1),
    )
    server = reverb.Server([table])
    client = reverb.Client(f"localhost:{server.port}")
    rows = 10_000  # inserting takes long, and sampling does not depend on it much
    given = columns(rows)
    with client.trajectory_writer(1) as writer:
        for number in range(rows):
            writer.append({name: value[number] for name, value in given.items()})
            writer.create_item("rows", 1.0, {name: writer.history[name][-1:] for name in given})
        writer.flush()
    spec = {name: tf.TensorSpec((1, *value.shape[1:]), value.dtype) for name, value in given.items()}
    samples = reverb.TrajectoryDataset(
        f"localhost:{server.port}",
        "rows",
        dtypes={name: part.dtype for name, part in spec.items()},
        shapes={name: part.shape for name, part in spec.items()},
        max_in_flight_samples_per_worker=2 * SIZE,
    ).batch(SIZE)
    batches = iter(samples)
    errors = RNG.random(SIZE)

    def once() -> None:
        batch = next(batches)
        keys = batch.info.key.numpy().reshape(-1)[:SIZE]
        client.mutate_priorities("rows", dict(zip(keys.tolist(), errors.tolist(), strict=False)))

    once.server = server  # type: ignore[attr-defined]
    return once


def start_ray() -> None:
    import ray

    if not ray.is_initialized():
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")


def main() -> None:
    seconds, rounds = float(sys.argv[1]), int(sys.argv[2])
    found: dict[str, float] = {}
    for name, made in (
        ("TorchRL's RayReplayBuffer, uniform", torchrl),
        ("RLlib's buffer in an actor", rllib),
        ("Reverb", reverb),
    ):
        try:
            once = made()
            rates = []
            for _ in range(rounds):
                count, begun = 0, time.perf_counter()
                while time.perf_counter() - begun < seconds:
                    once()
                    count += 1
                rates.append(count / (time.perf_counter() - begun))
            found[name] = statistics.median(rates)
        except Exception as error:
            print(f"left out: {name}: {type(error).__name__}: {str(error)[-600:]}", file=sys.stderr)
    print(json.dumps(found), flush=True)
    os._exit(0)  # Reverb's and Ray's threads are not waited for


if __name__ == "__main__":
    main()
