"""Looking into memories and runs while they are used: what is seen, and its way from one process to another."""

from recollect.live.channel import Publisher, ask, published
from recollect.live.view import MemoryView, View

__all__ = ["MemoryView", "Publisher", "View", "ask", "published"]
