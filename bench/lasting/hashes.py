"""GB/s of checksums over 64 MB: ours, and those of Python's library.

python bench/lasting/hashes.py
"""

from __future__ import annotations

import hashlib
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from relive import _core

sys.path.insert(0, str(Path(__file__).parents[1] / "memory"))

from timing import interleave

SIZE = 64 << 20


def xxh64(data: Any) -> int:
    hashed = _core.Hash()
    hashed.update(data)
    return hashed.digest()


def main() -> None:
    """Print a table."""
    data = np.random.default_rng(0).integers(0, 255, SIZE, np.uint8)
    found = interleave(
        {
            "XXH64": lambda: xxh64(data),
            "CRC-32": lambda: zlib.crc32(data),
            "BLAKE2b": lambda: hashlib.blake2b(data).digest(),
            "SHA-256": lambda: hashlib.sha256(data).digest(),
        },
        rounds=7,
    )
    print("| | GB/s |\n|---|---|")
    for name, timing in found.items():
        print(f"| {name} | {SIZE / timing.cpu_median / 1e3:.1f} |")


if __name__ == "__main__":
    main()
