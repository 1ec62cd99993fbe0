"""The live web page of runs and memories: ``relive serve``, or ``rl.serve(memory)``."""

from relive.web.start import Page, serve

__all__ = ["Page", "serve"]
