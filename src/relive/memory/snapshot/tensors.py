"""Files of named arrays in the safetensors format: eight bytes of length, a JSON header, the arrays' bytes."""

from __future__ import annotations

import json
from typing import Any, TypeAlias, final

import numpy as np

from relive.types import Array

__all__ = ["FormatError", "Tensor", "code_of", "encode_header", "read_tensors"]

Tensor: TypeAlias = tuple[np.dtype[Any], tuple[int, ...]]

MOST_HEADER = 16 << 20

_CODES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "F16": "float16",
    "U32": "uint32",
    "I32": "int32",
    "F32": "float32",
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
}
_DTYPES = {np.dtype(name): code for code, name in _CODES.items()}


@final
class FormatError(ValueError):
    """Bytes that are no such file: the rule that they break, and what they are instead."""

    def __init__(self, rule: str, got: object) -> None:
        super().__init__(f"{rule}: {got}")
        self.rule = rule
        self.got = got


def code_of(dtype: np.dtype[Any]) -> str:
    """The format's name of a dtype."""
    return _DTYPES[dtype]


def encode_header(tensors: dict[str, Tensor], about: dict[str, str], *, size: int = 0) -> bytes:
    """The beginning of a file that holds these arrays one after the other.

    Args:
        size: Bytes that the beginning must have, so that it can be written last; 0: as few as it needs.
    """
    header: dict[str, Any] = {"__metadata__": about}
    offset = 0
    for name, (dtype, shape) in tensors.items():
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        header[name] = {"dtype": code_of(dtype), "shape": list(shape), "data_offsets": [offset, offset + nbytes]}
        offset += nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (size - 8 - len(text) if size else -len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def read_tensors(data: Array, tensors: dict[str, Tensor]) -> dict[str, Array]:
    """The arrays of a file, as views of its bytes ``[n]``.

    Raises:
        FormatError: If the bytes are not a file of exactly these arrays.
    """
    header, start = _read_header(data)
    header.pop("__metadata__", None)
    if set(header) != set(tensors):
        raise FormatError(
            f"hold the arrays {', '.join(sorted(tensors))}", ", ".join(sorted(map(str, header))) or "none"
        )
    arrays: dict[str, Array] = {}
    ranges: list[tuple[int, int]] = []
    for name, (dtype, shape) in tensors.items():
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        entry = header[name]
        form = {"dtype": code_of(dtype), "shape": list(shape)}
        if not isinstance(entry, dict) or {key: entry.get(key) for key in form} != form:
            raise FormatError(f"hold {name} as {form['dtype']}{list(shape)}", str(entry)[:100])
        offsets = entry.get("data_offsets")
        if not isinstance(offsets, list) or len(offsets) != 2 or any(type(n) is not int for n in offsets):
            raise FormatError(f"say where {name} is", str(entry)[:100])
        low, high = offsets
        if not (0 <= low <= high <= len(data) - start) or high - low != nbytes:
            raise FormatError(f"hold {nbytes} bytes of {name} within the file", f"{low} to {high}")
        ranges.append((low, high))
        arrays[name] = data[start + low : start + high].view(dtype).reshape(shape)
    ranges.sort()
    edges = [0, *(high for _, high in ranges)]
    if [low for low, _ in ranges] != edges[:-1] or edges[-1] != len(data) - start:
        raise FormatError("hold its arrays one after the other", "gaps or overlaps")
    return arrays


def _read_header(data: Array) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(data[:8].tobytes(), "little") if len(data) >= 8 else -1
    if not 2 <= length <= min(len(data) - 8, MOST_HEADER):
        raise FormatError(f"begin with the length of a header of at most {MOST_HEADER} bytes", length)
    try:
        header = json.loads(data[8 : 8 + length].tobytes())
    except (ValueError, RecursionError) as error:
        raise FormatError("have a header in JSON", error) from None
    if not isinstance(header, dict):
        raise FormatError("have a header in JSON", type(header).__name__)
    return header, 8 + length
