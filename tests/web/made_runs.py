"""Runs and memories to look at, made without training."""

import json
import socket
from pathlib import Path

import numpy as np

import relive as rl

CONFIG = """env = "{env}"
algorithm = "{algorithm}"

[run]
steps = 1000
seed = {seed}

[{algorithm}]
gamma = {gamma}
"""


def write_run(folder: Path, seed: int, *, state: str = "done", gamma: float = 0.9, env: str = "CartPole-v1") -> None:
    """The files of a run, without training one."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(CONFIG.format(env=env, algorithm="dqn", seed=seed, gamma=gamma))
    speed = {"time/steps_per_second": 100.0}
    lines = [
        {"step": step, "return": step / 10 + seed, "train/loss": 1 / (1 + step), "time/seconds": step / 100, **speed}
        | {"time/cpu_seconds": step / 200}
        for step in range(0, 1001, 50)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    about = {"state": state, "error": "ValueError: no" if state == "failed" else "", "began": 1.0, "ended": 2.0}
    about |= {"pid": 2**30, "born": "", "host": socket.gethostname()}
    (folder / "status.json").write_text(json.dumps(about))
    (folder / "events.jsonl").write_text(json.dumps({"time": 5.0, "what": "actor", "text": "actor 1 was lost"}) + "\n")


def small_memory(steps: int = 400, sampler: rl.Sampler | None = None) -> rl.Memory:
    """Rows of two lanes with a picture, and draws of them."""
    schema = rl.Schema(obs=rl.Field((3,)), camera=rl.Field((12, 12), "uint8"), action=rl.Field())
    memory = rl.Memory(schema, 600, 2, sampler=sampler or rl.Prioritized(), seed=0)
    for number in range(steps):
        end = np.full(2, number % 20 == 19)
        values = {"obs": np.full((2, 3), number), "camera": np.full((2, 12, 12), number % 250), "action": np.zeros(2)}
        memory.append(**values, reward=np.ones(2), terminated=end, truncated=end & False,
                      final_obs=np.zeros((2, 3)))  # fmt: skip
    return memory
