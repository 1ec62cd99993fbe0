"""Segment codecs: uncompressed, or Zstandard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np

from relive import _core
from relive.errors import MissingExtra, OptionError
from relive.memory.snapshot.tensors import FormatError

__all__ = ["Codec", "Plain", "Zstd", "codec_of", "expand"]


@final
@dataclass(frozen=True)
class Written:
    """The number of bytes written, and their XXH64."""

    bytes: int
    xxh64: str


class Out(Protocol):
    """Takes the bytes of one file."""

    def write(self, data: Any) -> None:
        """Take some more."""
        ...

    def finish(self) -> Written:
        """Take no more."""
        ...


class Codec(Protocol):
    """A way of writing files."""

    suffix: str

    def writer(self, sink: Callable[[Any], None]) -> Out:
        """Something that passes bytes on to a sink."""
        ...


@final
class _PlainOut:
    def __init__(self, sink: Callable[[Any], None]) -> None:
        self._sink = sink
        self._hash = _core.Hash()
        self._bytes = 0

    def write(self, data: Any) -> None:
        self._hash.update(data)
        self._sink(data)
        self._bytes += len(data)

    def finish(self) -> Written:
        return Written(self._bytes, f"{self._hash.digest():016x}")


@final
class Plain:
    """No compression."""

    suffix = ""

    def writer(self, sink: Callable[[Any], None]) -> Out:
        """Something that passes bytes on to a sink."""
        return _PlainOut(sink)


@final
class _ZstdOut:
    def __init__(self, sink: Callable[[Any], None], level: int) -> None:
        self._out = _PlainOut(sink)
        self._compressor = _zstandard().ZstdCompressor(level=level, write_checksum=False).compressobj()

    def write(self, data: Any) -> None:
        packed = self._compressor.compress(data)
        if packed:
            self._out.write(packed)

    def finish(self) -> Written:
        self._out.write(self._compressor.flush())
        return self._out.finish()


@final
class Zstd:
    """Zstandard compression; pays for images."""

    suffix = ".zst"

    def __init__(self, level: int = 1) -> None:
        _zstandard()
        self._level = level

    def writer(self, sink: Callable[[Any], None]) -> Out:
        """Something that passes bytes on to a sink."""
        return _ZstdOut(sink, self._level)


def codec_of(name: str | None) -> Codec:
    """The codec of a name; None is none."""
    if name is None:
        return Plain()
    if name != "zstd":
        raise OptionError("compress", "be None or 'zstd'", repr(name))
    return Zstd()


def expand(data: np.ndarray[Any, Any], most: int) -> np.ndarray[Any, Any]:
    """The bytes of a compressed file, which may not be more than ``most``.

    Raises:
        FormatError: If they are, or the file is none.
    """
    zstandard = _zstandard()
    out = np.empty(most, np.uint8)
    filled = 0
    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(data) as reader:
            while filled < most and (count := reader.readinto(out[filled:])):
                filled += count
            if reader.read(1):
                raise FormatError(f"hold at most {most} bytes", "more")
    except zstandard.ZstdError as error:
        raise FormatError("be compressed by Zstandard", error) from None
    return out[:filled]


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("zstandard", "zstd") from None
    return zstandard
