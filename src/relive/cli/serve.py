"""``relive serve``: a web page of runs and memories."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from relive.errors import OptionError
from relive.memory import Mapped, Memory, Shared
from relive.web.start import Page

__all__ = ["serve"]


def serve(runs: Path, memories: Sequence[str], host: str, port: int, token: str | None, *, open_browser: bool) -> None:
    """Serve until interrupted."""
    if not runs.is_dir():
        if not memories:
            remedy = "Train something first, name another folder, or give --memory."
            raise OptionError("runs", "be a folder", repr(str(runs)), remedy)
        found = None
    else:
        found = runs
    with Page(found, dict(map(_open, memories)), host=host, port=port, token=token).start() as page:
        print(f"{page.url}\nCtrl-C stops it.", flush=True)
        if host not in ("127.0.0.1", "localhost", "::1"):
            print("Other machines can reach it, and nothing is encrypted: use a network you trust.", flush=True)
        if open_browser:
            webbrowser.open(page.url)
        threading.Event().wait()


def _open(text: str) -> tuple[str, Memory]:
    """A snapshot's folder, a mapped file, or shared memory as ``shared:NAME``, and what to call it."""
    if text.startswith("shared:"):
        return text, Memory.open(Shared(text.removeprefix("shared:")))
    path = Path(text)
    return path.name, Memory.load(path) if path.is_dir() else Memory.open(Mapped(path))
