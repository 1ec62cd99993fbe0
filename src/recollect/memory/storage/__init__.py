"""Where rows live: RAM, a memory-mapped file, or a segment that several processes share."""

from recollect.memory.storage.ground import Ground, Layout, Storage, watch_files
from recollect.memory.storage.mapped import Mapped
from recollect.memory.storage.ram import Ram
from recollect.memory.storage.shared import Shared

__all__ = ["Ground", "Layout", "Mapped", "Ram", "Shared", "Storage", "watch_files"]
