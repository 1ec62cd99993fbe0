"""Profiles of the property tests (``pytest --hypothesis-profile=slow`` for thousands of examples), and Ray."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("fast", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("slow", max_examples=2500, deadline=None)
settings.load_profile("fast")

_OURS: set[str] = set()
"""Addresses of clusters that were started here."""


@pytest.fixture
def ray() -> Any:
    """A Ray cluster of this machine: one for all tests of a process, until it ends."""
    import relive as rl

    ray = pytest.importorskip("ray")
    if not (ray.is_initialized() and ray.get_runtime_context().gcs_address in _OURS):
        ray.shutdown()  # a page of the documentation may have left one
        helpers = os.pathsep.join(str(Path(__file__).parent / folder) for folder in ("distributed", "memory"))
        here = {"env_vars": {"PYTHONPATH": helpers}}
        rl.distributed.connect("local", num_cpus=2, object_store_memory=200_000_000, runtime_env=here)
        _OURS.add(ray.get_runtime_context().gcs_address)
    return ray
