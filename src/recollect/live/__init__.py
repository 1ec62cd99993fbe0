"""Live views of memories and runs, and their transport between processes."""

from recollect.live.channel import Publisher, ask, published
from recollect.live.view import MemoryView, View

__all__ = ["MemoryView", "Publisher", "View", "ask", "published"]
