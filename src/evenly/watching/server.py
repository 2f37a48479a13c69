"""The server of a live page: four files and a stream of events, for who may read them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from evenly.look import style_sheet
from evenly.watching.access import Access, Asked
from evenly.watching.history import History

_POLL_S, _SILENCE_S = 0.1, 10.0
_PIECE = 200
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'self' http://localhost:* http://127.0.0.1:* https://localhost:* https://127.0.0.1:*"
    ),
    "X-Frame-Options": "SAMEORIGIN",  # for browsers that do not know frame-ancestors, which allows notebooks of this machine
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Asks `Access` before anything is answered, and gives every answer the headers that keep other pages out."""

    def __init__(self, app: Any, access: Access, cookie: str) -> None:
        self._app, self._access, self._cookie = app, access, cookie

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                told = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *(it for it in told if it[0] not in given)]
            await send(message)

        await self._answer(Request(scope))(scope, receive, guarded)

    def _answer(self, request: Request) -> Any:
        document = request.url.path == "/"
        headers = request.headers
        given = request.query_params.get("token", "") if document else ""
        asked = Asked(
            host=headers.get("host", ""),
            origin=headers.get("origin", ""),
            site=headers.get("sec-fetch-site", ""),
            mode=headers.get("sec-fetch-mode", ""),
            token=given or _bearer(headers.get("authorization", "")) or _cookie(headers.get("cookie", ""), self._cookie),
        )
        refused = self._access.refusal(asked, document=document)
        if refused is not None:
            return Response(refused[1] + "\n", refused[0], media_type="text/plain")
        if given and self._access.token is not None:
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, given, httponly=True, samesite="strict", path="/")
            return answer
        return self._app


def _bearer(authorization: str) -> str:
    kind, _, token = authorization.partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _cookie(cookies: str, name: str) -> str:
    try:
        found = SimpleCookie(cookies).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def application(
    history: History, *, title: str, access: Access, cookie: str, epoch: str, stopping: threading.Event
) -> Starlette:
    """What is served. `epoch` tells this server from one before it: their numbers of records are not the same."""
    texts = {name: files("evenly.watching").joinpath(name).read_text("utf-8") for name in ("live.html", "live.js", "live.css")}
    kinds = {
        "/": ("text/html", texts["live.html"]),
        "/live.js": ("text/javascript", texts["live.js"]),
        "/live.css": ("text/css", style_sheet() + texts["live.css"]),
    }

    async def file(request: Request) -> Response:
        kind, text = kinds[request.url.path]
        return Response(text, media_type=kind)

    async def nothing(_: Request) -> Response:
        return Response(status_code=204)

    async def events(request: Request) -> Response:
        told = request.headers.get("last-event-id") or request.query_params.get("after", "")
        known, _, number = told.partition(".")
        after = int(number) if known == epoch and number.isdecimal() and len(number) < 16 else 0
        lines = _lines(history, after, title=title, epoch=epoch, stopping=stopping)
        return StreamingResponse(lines, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    paths = [Route(path, file) for path in kinds]
    routes = [*paths, Route("/events", events), Route("/favicon.ico", nothing)]
    served = Starlette(routes=routes, middleware=[Middleware(Guard, access=access, cookie=cookie)])
    served.router.redirect_slashes = False
    return served


async def _lines(history: History, after: int, *, title: str, epoch: str, stopping: threading.Event) -> AsyncIterator[bytes]:
    hello = json.dumps({"title": title, "epoch": epoch, "fresh": after == 0})
    yield f"retry: 1000\nevent: hello\ndata: {hello}\n\n".encode()
    silent_s = 0.0
    while not stopping.is_set():
        entries = history.since(after)[:_PIECE]
        if entries:
            silent_s, after = 0.0, entries[-1].number
            yield b"".join(
                b"id: %s.%d\nevent: %s\ndata: %s\n\n" % (epoch.encode(), it.number, it.event.encode(), it.line)
                for it in entries
            )
            continue
        await asyncio.sleep(_POLL_S)
        silent_s += _POLL_S
        if silent_s >= _SILENCE_S:
            silent_s = 0.0
            yield b": still here\n\n"
