"""Access control of the web page: token, same origin, and the host that it was started with."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias, final
from urllib.parse import parse_qs, urlsplit

from starlette.responses import PlainTextResponse, RedirectResponse, Response

__all__ = ["Guard"]

Scope: TypeAlias = MutableMapping[str, Any]
Part: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Part, Send], Awaitable[None]]

_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
_OPEN = (".css", ".js", ".svg")  # the page's own files, which say nothing about anybody


@final
class Guard:
    """Middleware that refuses requests with another host or origin, without the token, or that are not GET.

    Args:
        hosts: Allowed host names, without a port.
    """

    def __init__(self, app: App, token: str, hosts: frozenset[str]) -> None:
        self._app, self._token, self._hosts = app, token.encode(), hosts

    async def __call__(self, scope: Scope, receive: Part, send: Send) -> None:
        """A request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("only HTTP is spoken here")

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        refused = self._refused(scope)
        await (refused or self._app)(scope, receive, guarded)

    def _refused(self, scope: Scope) -> Response | None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        if self._hosts and _name_of(host) not in self._hosts:
            return PlainTextResponse("Host must be the address that the page was started with.\n", 403)
        origin = headers.get("origin")
        if origin is not None and _authority(origin) != host:
            return PlainTextResponse("Origin must be the page itself.\n", 403)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return PlainTextResponse("Only the page itself may ask.\n", 403)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("Nothing can be changed here.\n", 405)
        if scope["path"].endswith(_OPEN) and not scope["path"].startswith("/api"):
            return None
        cookie = f"relive-{scope['server'][1]}"
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if given and self._right(given):
            if scope["path"] != "/":
                return None
            answer = RedirectResponse("/", 303)  # so that the address that people share has no token
            answer.set_cookie(cookie, given, httponly=True, samesite="strict")
            return answer
        if self._right(_cookies(headers.get("cookie", "")).get(cookie, "")):
            return None
        return PlainTextResponse("The address must have the token that was printed with it (?token=...).\n", 401)

    def _right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token)


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _name_of(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower() if host and "@" not in host else ""
    except ValueError:
        return ""


def _cookies(text: str) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in text.split(";"))
    return {name: value for name, _, value in pairs}
