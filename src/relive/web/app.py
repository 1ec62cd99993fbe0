"""The HTTP interface of the web page."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, final

from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from relive.errors import ReliveError
from relive.live import MemoryView, View, ask

if TYPE_CHECKING:  # runs need torch, a memory does not
    from relive.web.runs import Runs

__all__ = ["Sources", "make_app", "rest_after"]

_PAGE = Path(__file__).parent / "page"
_FILES = {
    "/": ("index.html", "text/html"),
    "/style.css": ("style.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/charts.js": ("charts.js", "text/javascript"),
    "/runs.js": ("runs.js", "text/javascript"),
    "/memory.js": ("memory.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_BEAT = 1.0  # seconds between two looks for the event stream
_SHARE = 0.01  # of a watched run's time that looking at it may take
_LONGEST = 5.0  # seconds without a look: an answer may be slow once, as while a run begins
_STREAMS = 32  # event streams at once
_NUMBERS = ("lane", "start", "serial", "before", "lanes")


@final
class Sources:
    """Memories by name: given ones, those of running runs, and those of checkpoints."""

    def __init__(self, runs: Runs | None, given: Mapping[str, View]) -> None:
        self._runs, self._given = runs, dict(given)
        self._opened: tuple[str, float, View] | None = None

    @property
    def names(self) -> list[str]:
        """Those that were given."""
        return list(self._given)

    def answer(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of a memory's view."""
        if name in self._given:
            return {**self._given[name].answer(asked), "source": "given"}
        if self._runs is None:
            return {"error": f"memory must be one of those here, got {name!r}"}
        from relive.training import checkpoint

        folder = self._runs.folder(name)
        found = ask(folder, asked)
        if found is not None:
            return {**found, "source": "live"}
        if not checkpoint.exists(folder):
            return {"error": "run must go, or have a checkpoint, for its memory to be looked into, got neither"}
        return {**self._snapshot(name, folder).answer(asked), "source": "checkpoint"}

    def _snapshot(self, name: str, folder: Path) -> View:
        """The memory of a run's last checkpoint; one is cached."""
        written = (folder / "checkpoint.json").stat().st_mtime
        from relive.training import checkpoint

        if self._opened is None or self._opened[:2] != (name, written):
            self._opened = None
            self._opened = (name, written, MemoryView(checkpoint.load_memory(folder)))
        return self._opened[2]


def make_app(runs: Runs | None, memories: Mapping[str, View], closing: Event) -> Starlette:
    """The page of some runs and memories.

    Args:
        closing: Set when the server is about to end, which streams hold up otherwise.
    """
    sources, streams = Sources(runs, memories), [0]

    async def file(request: Request) -> Response:
        name, kind = _FILES[request.url.path]
        return FileResponse(_PAGE / name, media_type=kind)

    def overview() -> dict[str, Any]:
        return {"runs": [] if runs is None else runs.listed(), "memories": sources.names}

    async def listed(_: Request) -> Response:
        return JSONResponse(await to_thread.run_sync(overview))

    async def run(request: Request) -> Response:
        name = request.query_params.get("run", "")
        return await _answered(lambda: {} if runs is None else runs.about(name))

    async def curve(request: Request) -> Response:
        name, metric = request.query_params.get("run", ""), request.query_params.get("metric", "return")
        return await _answered(lambda: {} if runs is None else runs.curve(name, metric))

    async def picture(request: Request) -> Response:
        name, chosen = request.query_params.get("run", ""), request.query_params.get("file", "")
        if runs is None:
            return JSONResponse({"error": "there are no runs here"}, 404)
        try:
            path, kind = await to_thread.run_sync(runs.picture, name, chosen)
        except ReliveError as error:
            return JSONResponse({"error": str(error)}, 404)
        return FileResponse(path, media_type=kind)

    async def memory(request: Request) -> Response:
        name = request.query_params.get("memory", "")
        try:
            asked = _question(request.query_params)
        except ValueError:
            return JSONResponse({"error": "lanes and serials must be whole numbers"}, 400)
        found = await to_thread.run_sync(_safely, lambda: sources.answer(name, asked))
        for key, kind in (("png", "image/png"), ("gif", "image/gif")):
            if key in found:
                return Response(base64.b64decode(found[key]), media_type=kind)
        return JSONResponse(found, 404 if "error" in found else 200)

    async def events(request: Request) -> Response:
        if streams[0] >= _STREAMS:
            return JSONResponse({"error": "too many pages are open"}, 503)
        streams[0] += 1  # now: several requests may come before the first stream begins
        return _Stream(stream(request.query_params.get("memory", "")), ended)

    def ended() -> None:
        streams[0] -= 1

    async def stream(name: str) -> AsyncIterator[str]:
        before, due = "", 0.0
        yield "retry: 1000\n\n"
        while not closing.is_set():
            now = await to_thread.run_sync(overview)
            text = json.dumps(now)
            if text != before:
                before = text
                yield f"event: overview\ndata: {text}\n\n"
            if name and time.monotonic() >= due:
                begun = time.monotonic()
                found = await to_thread.run_sync(_safely, lambda: sources.answer(name, {"what": "summary"}))
                due = time.monotonic() + rest_after(time.monotonic() - begun)
                yield f"event: summary\ndata: {json.dumps(found)}\n\n"
            elif text == before:
                yield ": still here\n\n"
            for _ in range(10):
                if not closing.is_set():
                    await asyncio.sleep(_BEAT / 10)

    routes = [Route(path, file) for path in _FILES]
    routes += [
        Route("/api/overview", listed),
        Route("/api/run", run),
        Route("/api/curve", curve),
        Route("/api/picture", picture),
        Route("/api/memory", memory),
        Route("/events", events),
    ]
    return Starlette(routes=routes)


@final
class _Stream(StreamingResponse):
    """An event stream that says when it has ended, however it does.

    Args:
        ended: Called at the end.
    """

    def __init__(self, content: AsyncIterator[str], ended: Callable[[], None]) -> None:
        super().__init__(content, media_type="text/event-stream")
        self._ended = ended

    async def __call__(self, *arguments: Any) -> None:
        """Send it."""
        try:
            await super().__call__(*arguments)
        finally:
            self._ended()


def rest_after(seconds: float) -> float:
    """Seconds to wait after a look that took some, beyond the beat of the stream.

    >>> rest_after(0.001), rest_after(0.02), rest_after(0.3)
    (0.0, 1.0, 5.0)
    """
    return min(max(0.0, seconds / _SHARE - _BEAT), _LONGEST)


def _question(given: Mapping[str, str]) -> dict[str, Any]:
    asked: dict[str, Any] = {"what": given.get("what", "summary")}
    asked |= {key: int(given[key]) for key in _NUMBERS if key in given}
    if "field" in given:
        asked["field"] = given["field"]
    return asked


async def _answered(work: Any) -> Response:
    found = await to_thread.run_sync(_safely, work)
    return JSONResponse(found, 404 if "error" in found and len(found) == 1 else 200)


def _safely(work: Any) -> dict[str, Any]:
    try:
        return dict(work())
    except (ReliveError, OSError) as error:
        return {"error": str(error)}
