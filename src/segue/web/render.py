"""Renders pages as HTML, whole or without their frame, as JSON, and every failure as a sentence."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import asdict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from segue.domain.errors import Locked, SegueError, StoreError
from segue.runtime.app import App
from segue.system.http.guard import Receive, Scope, Send
from segue.view.run import RunView
from segue.web.cache import StorePool, VersionedCache
from segue.web.filters import create_environment
from segue.web.live import LiveUpdates
from segue.web.routes import (
    ActionResult,
    Data,
    NotFound,
    PageRequest,
    PageRoute,
    list_pages,
    make_menu,
)

if TYPE_CHECKING:
    from segue.store.store import Store


_log = logging.getLogger(__name__)
PART = "x-segue-part"
"""The header with which the script requests the content of a page without its frame."""

_MAX_BYTES = 2 * 1024**2
_MAX_AGE = 3.0
"""Seconds: not everything a page shows is in the store, for example that a process died."""

_STATUS = ((NotFound, 404), (Locked, 409), (StoreError, 503))


class PageRenderer:
    """Answers requests: route → query → data → template or JSON."""

    def __init__(self, app: App, live: LiveUpdates) -> None:
        self._app = app
        self._live = live
        self._stores = StorePool(app)
        self._cache = VersionedCache[bytes](64, _MAX_AGE, lambda body: len(body) <= _MAX_BYTES)
        self._views = VersionedCache[RunView](512)
        self._menu = make_menu(list_pages())
        self._waiting = 0
        """How many things waited for a person when somebody last counted; the script asks again."""

    def warm_up(self) -> None:
        """Do what the first request for each page would wait for: open a store, compile the templates."""
        with suppress(SegueError), self._stores.borrow():
            pass
        self._render_in_frame("frame.html", title="")
        compile_templates()

    def close(self) -> None:
        """Close the stores."""
        self._stores.close()

    def html(self, page: PageRoute, request: Request) -> Response:
        """Render the page; only its content if the script asks for it."""
        part = PART in request.headers
        version = self._live.version
        if page.slow and not part:
            headers = {"x-segue-version": str(version)}
            return StreamingResponse(self._stream(page, request), media_type="text/html", headers=headers)

        def render() -> bytes:
            with explain_bugs():
                return self._render_page(page, request, part).encode("utf-8", "replace")

        if part and page.live and self._live.is_watching:
            body = self._cache.get(f"{request.url.path}?{request.url.query}", version, render)
        else:
            body = render()
        return HTMLResponse(body, headers={"x-segue-version": str(version)})

    def json(self, page: PageRoute, request: Request) -> Response:
        """Return the data of the page for programs."""
        with explain_bugs():
            body = json.dumps({"schema": 1, "data": self._query(page, request)}, default=to_json)
        return Response(body, media_type="application/json")

    def result(self, request: Request, result: ActionResult) -> Response:
        """Return the result of an action: for the script, or as a page of its own."""
        if _wants_json(request):
            return JSONResponse({"schema": 1, "data": {"said": result.said, "where": result.where}})
        return HTMLResponse(self._render_in_frame("said.html", title="Done", done=result))

    def error_handlers(self) -> dict[Any, Callable[[Request, Exception], Any]]:
        """Return Starlette's handlers that render failures."""

        def handle_http(request: Request, error: Exception) -> Response:
            assert isinstance(error, HTTPException)
            if error.status_code == 404:
                found = NotFound("There is nothing at this address.", hint="The menu leads to all pages.")
                return self._render_error(request, found, 404)
            return self._render_error(request, SegueError(f"{error.detail}."), error.status_code)

        def handle_ours(request: Request, error: Exception) -> Response:
            assert isinstance(error, SegueError)
            usual = 500 if error.exit_code == SegueError.exit_code else 400
            status = next((status for kind, status in _STATUS if isinstance(error, kind)), usual)
            return self._render_error(request, error, status)

        return {HTTPException: handle_http, SegueError: handle_ours}

    def _render_error(self, request: Request, error: SegueError, status: int) -> Response:
        facts = self._describe(error)
        _log.info("%s %s failed with %s: %s", request.method, request.url.path, status, facts["message"])
        if _wants_json(request) or request.url.path.endswith(".json"):
            return JSONResponse({"schema": 1, "error": facts}, status)
        body = self._render_in_frame("failed.html", title="Something went wrong", error=facts)
        return HTMLResponse(body, status)

    def _describe(self, error: SegueError) -> dict[str, str]:
        redact = self._app.redactor().text
        return {name: redact(getattr(error, name)) for name in ("message", "kept", "hint")}

    def _stream(self, page: PageRoute, request: Request) -> Iterator[bytes]:
        """Return a page whose frame is sent at once, because its content takes a moment."""
        with explain_bugs(), self._stores.borrow() as store:
            title = page.name(self._make_request(store, request)) if page.name else page.title
        frame = self._render_in_frame("frame.html", page, title=title, live_from=_find_stream(page, request))
        head, tail = frame.split("<!-- content -->")

        def send() -> Iterator[bytes]:
            yield head.encode()
            try:
                with explain_bugs():
                    content = self._render_page(page, request, part=True)
            except SegueError as error:
                facts = self._describe(error)
                _log.info("GET %s failed after its frame was sent: %s", request.url.path, facts["message"])
                content = self._render_in_frame("failed.html", part=True, error=facts)
            yield f"{content}{tail}".encode("utf-8", "replace")

        return send()

    def _render_page(self, page: PageRoute, request: Request, part: bool) -> str:
        data = self._query(page, request)
        title = data.get("title", page.title)
        view = page.present(data) if page.present else {}
        values = {"title": title, "live_from": _find_stream(page, request), "data": data, "url": request.url}
        return self._render_in_frame(page.template, page, part, **values, **view)

    def _query(self, page: PageRoute, request: Request) -> Data:
        with self._stores.borrow() as store:
            data = page.query(self._make_request(store, request))
        if page.path.startswith("/inbox"):
            self._waiting = data["waiting"]
        return data

    def _make_request(self, store: Store, request: Request) -> PageRequest:
        query = dict(request.query_params)
        return PageRequest(self._app, store, request.path_params, query, self._views)

    def _render_in_frame(
        self, template: str, page: PageRoute | None = None, part: bool = False, **values: Any
    ) -> str:
        here = (page.section or page.path) if page else ""
        frame = "part.html" if part else "base.html"
        known = {
            "frame": frame,
            "menu": self._menu,
            "here": here,
            "tab": page.path if page and page.menu else "",
            "waiting": self._waiting,
            "live_from": "/live",
        }
        return render_template(template, **{**known, **values})


def _find_stream(page: PageRoute, request: Request) -> str:
    """Return where the page hears of changes; that of a run also hears of its events."""
    run = request.path_params.get("run") if page.live and page.path.startswith("/runs/") else None
    return f"/live?run={quote(run)}" if run else "/live"


@contextmanager
def explain_bugs() -> Iterator[None]:
    """Turn an unexpected exception into an error with a hint; SEGUE_TRACEBACK=1 shows the traceback."""
    try:
        yield
    except SegueError:
        raise
    except Exception as error:
        if os.environ.get("SEGUE_TRACEBACK"):
            raise
        raise SegueError(
            f"Unexpected {type(error).__name__}: {error}",
            kept="Runs are not affected.",
            hint="Start `segue serve` with SEGUE_TRACEBACK=1 and report what it prints.",
        ) from error


def to_json(value: Any) -> Any:
    """Convert a value of a page that JSON does not know."""
    if hasattr(value, "to_json"):
        return value.to_json()
    return asdict(value) if isinstance(value, Struct) else str(value)


def compile_templates() -> None:
    """Compile all templates, those of the pages in the order of the menu before the others."""
    made = create_environment()
    for name in dict.fromkeys(
        ("parts.html", *(page.template for page in list_pages()), *made.list_templates())
    ):
        made.get_template(name)


def render_template(template: str, **values: Any) -> str:
    """Render a template."""
    return create_environment().get_template(template).render(**values)


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request that was refused: say what to do, reveal nothing."""
    why = scope["segue.refused"]
    status = 401 if why == "stranger" else 403
    answer: Response = HTMLResponse(render_template("stranger.html", why=why), status)
    if scope["method"] != "GET" or scope["path"].endswith(".json"):
        message = "a token is required" if why == "stranger" else "a change must come from the page itself"
        answer = JSONResponse({"schema": 1, "error": {"message": message, "kept": "", "hint": ""}}, status)
    await answer(scope, receive, send)


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")
