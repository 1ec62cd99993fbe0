"""Snapshots of a memory in a folder: docs/format.md."""

from recollect.memory.snapshot.compression import codec_of
from recollect.memory.snapshot.disk import SystemDisk, locked
from recollect.memory.snapshot.load import load_rows, load_state
from recollect.memory.snapshot.manifest import Manifest, read_manifest
from recollect.memory.snapshot.parts import sampler_from_plain, window_from_plain
from recollect.memory.snapshot.save import Subject, save

__all__ = [
    "Manifest",
    "Subject",
    "SystemDisk",
    "codec_of",
    "load_rows",
    "load_state",
    "locked",
    "read_manifest",
    "sampler_from_plain",
    "save",
    "window_from_plain",
]
