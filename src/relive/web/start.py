"""Serving the web page: for a folder of runs, or for a memory."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from relive.distributed import Shards
from relive.distributed.view import ShardsView
from relive.errors import MissingExtra, OptionError
from relive.live import MemoryView, View
from relive.memory import Memory, Rollout

try:
    import uvicorn

    from relive.web.app import make_app
    from relive.web.connections import LimitedProtocol
    from relive.web.guard import Guard
except ModuleNotFoundError as missing:
    raise MissingExtra(missing.name or "starlette", "serve") from None

__all__ = ["Page", "serve"]

_PATIENCE = 10.0  # seconds to begin or end in
_BACKLOG = 64  # connections that are accepted in one go, before the limit on them is looked at
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@final
class Page:
    """A page that is being served; ``url`` is its address with the token. Ends with ``close``, or with the program."""

    def __init__(
        self,
        runs: Path | None,
        memories: Mapping[str, Memory | Rollout | Shards],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
    ) -> None:
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65536:
            raise OptionError("port", "be from 0 to 65535", repr(port))
        if runs is not None and not runs.is_dir():
            raise OptionError("folder", "be a folder of runs", repr(str(runs)))
        self.token = secrets.token_urlsafe(24) if token is None else token
        if len(self.token) < 16:
            raise OptionError("token", "have at least 16 letters", f"{len(self.token)}")
        views = {name: _view(memory) for name, memory in memories.items()}
        self._views, self._closing = list(views.values()), threading.Event()
        app = make_app(None if runs is None else _runs(runs), views, self._closing)
        # Against DNS rebinding, only this machine's own names are allowed. A page for other machines may have any
        # name, and relies on the token.
        hosts = frozenset(_LOOPBACK) if host in _LOOPBACK else frozenset[str]()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise OptionError("host and port", "be free to listen on", f"{host}:{port}", str(error)) from None
        self.port: int = self._socket.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}/?token={self.token}"
        config = uvicorn.Config(
            Guard(app, self.token, hosts),
            http=LimitedProtocol,
            backlog=_BACKLOG,
            log_level="critical",
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._thread: threading.Thread | None = None

    def start(self) -> Page:
        """Serve in a thread of this program; returns once it does."""
        given = {"sockets": [self._socket]}
        self._thread = threading.Thread(target=self._server.run, kwargs=given, name="relive-page", daemon=True)
        self._thread.start()
        late = time.monotonic() + _PATIENCE
        while not self._server.started and self._thread.is_alive() and time.monotonic() < late:
            time.sleep(0.01)
        return self

    def close(self) -> None:
        """Stop serving."""
        self._closing.set()
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_PATIENCE)
        self._socket.close()
        for view in self._views:
            view.close()
        self._views, self._server = [], _Server(uvicorn.Config(_nothing))  # what was shown may be large

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Page({self.url})"


async def _nothing(*_: Any) -> None:
    """The page of a server that was closed."""


@final
class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        # Browsers would wait for ever on connections that were made meanwhile, which uvicorn leaves open.
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)


def _runs(folder: Path) -> Any:
    from relive.web.runs import Runs  # which needs torch

    return Runs(folder)


def _view(memory: Memory | Rollout | Shards) -> View:
    if isinstance(memory, Shards):
        return ShardsView(memory)
    if not isinstance(memory, (Memory, Rollout)):
        raise OptionError("memory", "be a Memory, a Rollout or Shards", type(memory).__name__)
    return MemoryView(memory)


def serve(
    memory: Memory | Rollout | Shards, *, name: str = "memory", open_browser: bool = False, **options: Any
) -> Page:
    """Serve a page that shows a memory, or the shards of one, in a thread of this program.

    Args:
        name: What the page calls it.
        open_browser: Whether to open it.
        options: ``host``, ``port`` and ``token`` of ``Page``.

    >>> page = rl.serve(memory)  # doctest: +SKIP
    >>> print(page.url)  # doctest: +SKIP
    http://127.0.0.1:43121/?token=...
    """
    page = Page(None, {name: memory}, **options).start()
    if open_browser:
        import webbrowser

        webbrowser.open(page.url)
    return page
