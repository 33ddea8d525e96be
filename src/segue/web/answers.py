"""How pages answer: drawn as HTML, whole or in parts, as JSON, and every failure as a sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from segue.domain.errors import Locked, SegueError, StoreError
from segue.runtime.app import App
from segue.system.http.guard import Receive, Scope, Send
from segue.web.cache import Shelf
from segue.web.filters import environment
from segue.web.live import Live
from segue.web.pages import Asked, Done, Missing, Page, pages
from segue.web.stores import Stores

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

PART = "x-segue-part"
"""The header with which the script asks for the content of a page without its frame."""

_STATUS = ((Missing, 404), (Locked, 409), (StoreError, 503))


class Answers:
    """Draws pages."""

    def __init__(self, app: App, live: Live) -> None:
        self._app = app
        self._live = live
        self._stores = Stores(app)
        self._shelf = Shelf()

    def close(self) -> None:
        """Close the stores."""
        self._stores.close()

    def html(self, page: Page, request: Request) -> Response:
        """The page for people; its content alone when the script asks for it."""
        from starlette.responses import HTMLResponse

        part = PART in request.headers
        address = f"{part} {request.url.path}?{request.url.query}"
        version = self._live.version

        def make() -> bytes:
            with spoken():
                return self._draw(page, request, part).encode("utf-8", "replace")

        body = (
            self._shelf.get(address, version, make) if part and page.live and self._live.watching else make()
        )
        return HTMLResponse(body, headers={"x-segue-version": str(version)})

    def json(self, page: Page, request: Request) -> Response:
        """The twin of the page for programs."""
        from starlette.responses import Response

        with spoken():
            body = json.dumps({"schema": 1, "data": self._data(page, request)}, default=str)
        return Response(body, media_type="application/json")

    def done(self, request: Request, done: Done) -> Response:
        """What an act has done: for the script, or as a page of its own."""
        from starlette.responses import HTMLResponse, JSONResponse

        if _wants_json(request):
            return JSONResponse({"schema": 1, "data": {"said": done.said, "where": done.where}})
        return HTMLResponse(self._framed("said.html", title="Done", done=done))

    def handlers(self) -> dict[Any, Callable[[Request, Exception], Any]]:
        """Failures as answers."""
        from starlette.exceptions import HTTPException

        def lost(request: Request, error: Exception) -> Response:
            assert isinstance(error, HTTPException)
            if error.status_code == 404:
                found = Missing("There is nothing at this address.", hint="The menu leads to all pages.")
                return self._failed(request, found, 404)
            return self._failed(request, SegueError(f"{error.detail}."), error.status_code)

        def failed(request: Request, error: Exception) -> Response:
            assert isinstance(error, SegueError)
            usual = 500 if error.exit_code == SegueError.exit_code else 400
            status = next((status for kind, status in _STATUS if isinstance(error, kind)), usual)
            return self._failed(request, error, status)

        return {HTTPException: lost, SegueError: failed}

    def _failed(self, request: Request, error: SegueError, status: int) -> Response:
        from starlette.responses import HTMLResponse, JSONResponse

        redact = self._app.redactor().text
        facts = {name: redact(getattr(error, name)) for name in ("message", "kept", "hint")}
        if _wants_json(request) or request.url.path.endswith(".json"):
            return JSONResponse({"schema": 1, "error": facts}, status)
        return HTMLResponse(self._framed("failed.html", title="That did not work", error=facts), status)

    def _draw(self, page: Page, request: Request, part: bool) -> str:
        data = self._data(page, request)
        return self._framed(
            page.template,
            page,
            part,
            title=data.get("title", page.title),
            data=data,
            url=request.url,
            version=self._live.version,
        )

    def _data(self, page: Page, request: Request) -> dict[str, Any]:
        with self._stores.lend() as store:
            return page.data(Asked(self._app, store, request.path_params, dict(request.query_params)))

    def _framed(self, template: str, page: Page | None = None, part: bool = False, **values: Any) -> str:
        here = (page.section or page.path) if page else ""
        menu = [entry for entry in pages() if entry.menu]
        frame = "part.html" if part else "base.html"
        return environment().get_template(template).render(frame=frame, menu=menu, here=here, **values)


@contextmanager
def spoken() -> Iterator[None]:
    """A bug of ours is named in a sentence, too; the traceback on request."""
    try:
        yield
    except SegueError:
        raise
    except Exception as error:
        if os.environ.get("SEGUE_TRACEBACK"):
            raise
        raise SegueError(
            f"Unexpected {type(error).__name__}: {error}",
            kept="Runs are not touched by that.",
            hint="Start `segue serve` with SEGUE_TRACEBACK=1 and report what it prints.",
        ) from error


def draw(template: str, **values: Any) -> str:
    """A small page without a menu."""
    return environment().get_template(template).render(**values)


async def stranger(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers whoever was not let in: says what to do, tells nothing."""
    from starlette.responses import HTMLResponse, JSONResponse

    why = scope["segue.refused"]
    status = 401 if why == "stranger" else 403
    answer: Response = HTMLResponse(draw("stranger.html", why=why), status)
    if scope["method"] != "GET" or scope["path"].endswith(".json"):
        said = "a token is needed" if why == "stranger" else "a change must come from the page itself"
        answer = JSONResponse({"schema": 1, "error": {"message": said, "kept": "", "hint": ""}}, status)
    await answer(scope, receive, send)


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")
