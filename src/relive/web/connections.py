"""Limits on connections, so that callers cannot take the descriptors of a program that trains."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, final

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["MOST", "LimitedProtocol"]

MOST = 128
"""Connections at once. Browsers open six each."""
_SECONDS = 10.0  # for the headers of a request to arrive
_log = logging.getLogger("relive.web")


@final
class LimitedProtocol(H11Protocol):
    """HTTP that closes connections beyond the limit, and those whose request does not arrive."""

    refused = False
    """Whether one was refused; this is logged once."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A new connection."""
        self._deadline: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        if len(self.connections) > MOST:
            if not LimitedProtocol.refused:
                LimitedProtocol.refused = True
                _log.warning("The page has %d connections open and refuses more.", MOST)
            transport.abort()
            return
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        """The end of a response: another request may follow."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of the connection."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        """Wait for a request's headers; the clock starts once, and stops while a response is being sent."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        elif not answering and self._deadline is None:
            self._deadline = self.loop.call_later(_SECONDS, self._give_up)

    def _give_up(self, *_: Any) -> None:
        self.transport.abort()
