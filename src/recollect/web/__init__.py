"""A page to look inside: runs and memories, live. ``recollect serve``, or ``rc.serve(memory)``."""

from recollect.web.start import Page, serve

__all__ = ["Page", "serve"]
