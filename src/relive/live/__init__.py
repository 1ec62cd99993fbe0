"""Live views of memories and runs, and their transport between processes."""

from relive.live.channel import Publisher, ask, published
from relive.live.view import MemoryView, View

__all__ = ["MemoryView", "Publisher", "View", "ask", "published"]
