"""The C floor: what the bare copies of a workload cost, with random rows drawn beforehand."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import cycle
from pathlib import Path

import numpy as np

from workloads import Array, Columns, EpisodeSpec, Field, GaeSpec, RowSpec

NAME = "C floor"

FIELDS = 16
DRAWN_ROWS = 1 << 20


class Plan(ctypes.Structure):
    """What a copy needs to know; mirrors `plan` in floor.c."""

    _fields_ = [
        ("fields", ctypes.c_int64),
        ("batch", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("position", ctypes.c_int64),
        ("base", ctypes.c_void_p * FIELDS),
        ("batch_base", ctypes.c_void_p * FIELDS),
        ("stride", ctypes.c_int64 * FIELDS),
        ("size", ctypes.c_int64 * FIELDS),
    ]


@cache
def _library() -> ctypes.CDLL:
    source = Path(__file__).with_name("floor.c")
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "floor.so")
        command = [os.environ.get("CC", "cc"), "-O3", "-march=native", "-shared", "-fPIC"]
        subprocess.run([*command, "-o", target, str(source)], check=True)
        library = ctypes.CDLL(target)
    for name in ("gather_rows", "gather_columns"):
        getattr(library, name).argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    for name in ("append_rows", "append_columns"):
        getattr(library, name).argtypes = (ctypes.c_void_p,)
    for name in ("gather_rows", "gather_columns", "append_rows", "append_columns", "gae"):
        getattr(library, name).restype = None
    return library


def version() -> str:
    """The compiler."""
    command = [os.environ.get("CC", "cc"), "--version"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[0]


def _huge(nbytes: int) -> Array:
    # Shared pages, Python's choice, do not become huge ones.
    memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def _fields(spec: RowSpec | EpisodeSpec) -> tuple[Field, ...]:
    return spec.row_fields if isinstance(spec, EpisodeSpec) else spec.fields


class _Memory:
    """Prefilled rows, packed or in columns, beside the arrays of one batch."""

    def __init__(self, spec: RowSpec | EpisodeSpec, packed: bool) -> None:
        fields = _fields(spec)
        sizes = [field.nbytes for field in fields]
        # Rows start at a cache line.
        row = -(-sum(sizes) // 64) * 64
        self.batch: Columns = {f.name: np.zeros((spec.batch, *f.shape), f.dtype) for f in fields}
        if packed:
            rows = _huge(spec.capacity * row).reshape(spec.capacity, row)
            offsets = np.cumsum([0, *sizes])
            self.views = [rows[:, o : o + s] for o, s in zip(offsets, sizes, strict=False)]
        else:
            self.views = [_huge(spec.capacity * s).reshape(spec.capacity, s) for s in sizes]
        start = 0
        for chunk in spec.chunks():
            for view, field in zip(self.views, fields, strict=True):
                column = np.ascontiguousarray(chunk[field.name])
                stop = start + len(column)
                view[start:stop] = column.view(np.uint8).reshape(len(column), -1)
            start = stop
        self.plan = Plan(len(fields), spec.batch, spec.capacity, 0)
        for i, (view, output) in enumerate(zip(self.views, self.batch.values(), strict=True)):
            self.plan.base[i] = view.ctypes.data
            self.plan.batch_base[i] = output.ctypes.data
            self.plan.stride[i] = view.strides[0]
            self.plan.size[i] = sizes[i]
        self.address = ctypes.addressof(self.plan)


def _sampler(spec: RowSpec | EpisodeSpec, packed: bool = True) -> Callable[[], Columns]:
    memory = _Memory(spec, packed)
    gather = _library().gather_rows if packed else _library().gather_columns
    rng = np.random.default_rng(spec.seed)
    draws = rng.integers(0, spec.capacity, (DRAWN_ROWS // spec.batch, spec.batch))
    pointers = cycle([draw.ctypes.data_as(ctypes.c_void_p) for draw in draws])

    def sample() -> Columns:
        gather(memory.address, next(pointers))
        return memory.batch

    return sample


w1 = w3 = w4 = w5 = _sampler


def w1__columns(spec: RowSpec) -> Callable[[], Columns]:
    """W1 from separate columns."""
    return _sampler(spec, packed=False)


def _appender(spec: RowSpec, packed: bool = True) -> Callable[[], None]:
    memory = _Memory(spec, packed)
    for name, column in spec.step().items():
        memory.batch[name][:] = column
    append = _library().append_rows if packed else _library().append_columns
    return lambda: append(memory.address)


w6a = w6b = _appender


def w6b__columns(spec: RowSpec) -> Callable[[], None]:
    """W6b into separate columns."""
    return _appender(spec, packed=False)


def w7(spec: GaeSpec) -> Callable[[], Array]:
    """One backward pass, environments in the inner loop."""
    data = spec.rollout()
    running, advantages = np.empty(spec.envs, np.float32), np.empty((spec.steps, spec.envs), np.float32)
    arrays = (data["reward"], data["value"], data["done"], data["last_value"])
    arguments = (
        ctypes.c_int64(spec.steps),
        ctypes.c_int64(spec.envs),
        *(array.ctypes.data_as(ctypes.c_void_p) for array in arrays),
        ctypes.c_float(spec.gamma),
        ctypes.c_float(spec.lam),
        running.ctypes.data_as(ctypes.c_void_p),
        advantages.ctypes.data_as(ctypes.c_void_p),
    )
    function = _library().gae

    def gae() -> Array:
        function(*arguments)
        return advantages

    return gae
