"""The live web page of runs and memories: ``recollect serve``, or ``rc.serve(memory)``."""

from recollect.web.start import Page, serve

__all__ = ["Page", "serve"]
