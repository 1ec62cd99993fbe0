"""Snapshots of a memory in a folder: docs/format.md."""

from recollect.memory.snapshot.compression import codec_of
from recollect.memory.snapshot.disk import SystemDisk
from recollect.memory.snapshot.loading import opened
from recollect.memory.snapshot.saving import Subject, save

__all__ = ["Subject", "SystemDisk", "codec_of", "opened", "save"]
