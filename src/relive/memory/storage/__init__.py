"""Where rows live: RAM, a memory-mapped file, or a segment that several processes share."""

from relive.memory.storage.ground import Ground, Layout, Storage, watch_files
from relive.memory.storage.mapped import Mapped
from relive.memory.storage.ram import Ram
from relive.memory.storage.shared import Shared

__all__ = ["Ground", "Layout", "Mapped", "Ram", "Shared", "Storage", "watch_files"]
