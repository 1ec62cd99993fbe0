"""Snapshots of a memory in a folder: docs/format.md."""

from relive.memory.snapshot.compression import codec_of
from relive.memory.snapshot.disk import SystemDisk
from relive.memory.snapshot.loading import opened
from relive.memory.snapshot.saving import Subject, save

__all__ = ["Subject", "SystemDisk", "codec_of", "opened", "save"]
