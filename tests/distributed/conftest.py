"""A Ray cluster of this machine, started once a module."""

from pathlib import Path

import pytest

import relive as rl


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    ray.shutdown()  # a page of the documentation may have left one
    here = {"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}}
    rl.distributed.connect("local", num_cpus=8, object_store_memory=200_000_000, runtime_env=here)
    yield ray
    ray.shutdown()
