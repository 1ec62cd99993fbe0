"""Checks that every peer does the work it is timed for, on small memories.

python verify.py [peers]
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from run import PEERS, variants
from workloads import EpisodeSpec, GaeSpec, RowSpec, workloads

SMALL = 2_000


def arrays(batch: Any) -> Iterator[np.ndarray[Any, Any]]:
    """All arrays in whatever a peer returns as a batch."""
    if isinstance(batch, tuple | list):
        for part in batch:
            yield from arrays(part)
    elif isinstance(batch, Mapping) or hasattr(batch, "items"):
        for _, part in batch.items():
            yield from arrays(part)
    elif hasattr(batch, "__dataclass_fields__"):
        for name in batch.__dataclass_fields__:
            yield from arrays(getattr(batch, name))
    elif batch is not None:
        yield np.asarray(batch)


def check_batch(spec: RowSpec | EpisodeSpec, batch: Any) -> None:
    """Every column of the batch must hold rows of the memory, the same ones in all columns."""
    got = [array for array in arrays(batch) if array.ndim and len(array) == spec.batch]
    fields = spec.row_fields if isinstance(spec, EpisodeSpec) else spec.fields
    stored = spec.columns()
    wide = [field for field in fields if (field.nbytes >= 16 and not field.high) or field.dtype == "uint8"]
    if isinstance(spec, EpisodeSpec):  # a reward after the last step is padding, which not every library returns
        wide = [field for field in wide if field.name in ("obs", "state")]
    origins: set[tuple[int, ...]] | None = None
    for field in wide:
        rows = {row.tobytes(): i for i, row in enumerate(stored[field.name])}
        found = set()
        for array in got:
            if array[0].size == stored[field.name][0].size:
                entries = np.ascontiguousarray(array.astype(field.dtype))
                index = tuple(rows.get(entry.tobytes(), -1) for entry in entries)
                if min(index) >= 0:
                    found.add(index)
        assert found, f"no column of the batch holds rows of {field.name}"
        if len(rows) == spec.capacity:
            origins = found if origins is None else origins & found
            assert origins, f"{field.name} comes from other rows"
    least = sum(field.nbytes for field in fields if field.high == 0 or field.dtype == "uint8") * spec.batch
    assert sum(array.nbytes for array in got) >= least, "the batch lacks columns"


def main() -> None:
    """Prints a line for each peer and workload."""
    for peer in sys.argv[1:] or PEERS:
        module = importlib.import_module(peer)
        print(f"{module.NAME} {module.version()}")
        for name, spec in workloads(quick=True).items():
            if not isinstance(spec, GaeSpec):
                spec = replace(spec, capacity=min(spec.capacity, SMALL if name[:2] != "w3" else 300))
            for label, build in variants(module, spec.function).items():
                call = build(spec)
                if isinstance(spec, GaeSpec):
                    np.testing.assert_allclose(np.asarray(call()), spec.reference(), rtol=1e-3, atol=1e-3)
                elif name in ("w6a", "w6b"):
                    for _ in range(5):
                        call()
                else:
                    for _ in range(3):
                        check_batch(spec, call())
                print(f"  {name} {label}: right")


if __name__ == "__main__":
    main()
