"""Serves the page as an ASGI app: guard, authentication, pages with their JSON, actions and live updates."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, quote

from msgspec import Struct
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from segue.domain.errors import UsageError
from segue.runtime.app import App
from segue.system.http.guard import LOOPBACK_HOSTS, AsgiApp, RequestGuard
from segue.system.http.server import open_server
from segue.system.process.group import on_interrupt
from segue.web.auth import ENTRY, AuthMiddleware, PageKeys, host_of, is_shared
from segue.web.filters import load_assets
from segue.web.live import LiveUpdates, to_sse
from segue.web.render import PageRenderer, explain_bugs, refuse, render_template
from segue.web.routes import ActionRoute, PageRoute, list_actions, list_pages

_log = logging.getLogger(__name__)
HOME = "/runs"
_BOTH = {"127.0.0.1": "::1", "localhost": "::1", "::1": "127.0.0.1"}
"""A browser looks for NAME.localhost at either address of this machine: nobody else may listen at one."""
_MAX_BODY = 64 * 1024
Endpoint = Callable[[Request], Awaitable[Response]]


async def serve(app: App, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; `announce` receives the link."""
    stopped = asyncio.Event()
    with on_interrupt(stopped.set):
        async with serve_pages(app, host, port) as make_link:
            announce(make_link(HOME))
            await stopped.wait()


def page_keys(app: App) -> PageKeys:
    """Return the keys of the page for this state folder."""
    return PageKeys(app.secret_dir / "page")


def link_to_running(app: App, port: int | None) -> str:
    """Make a link to a page that another process serves."""
    keys = page_keys(app)
    pages = [page for page in keys.find_pages() if port in (None, page.port)]
    if not pages:
        where = f" on port {port}" if port else ""
        raise UsageError(f"No page is being served{where}.", hint="Start one with: segue serve")
    return f"{pages[0].url}{keys.make_link(HOME)}"


@asynccontextmanager
async def serve_pages(app: App, host: str, port: int) -> AsyncIterator[Callable[[str], str]]:
    """Serve while the block runs; yield a function that makes a link to a page for one browser."""
    _refuse_everywhere(host)
    app.store().__exit__()  # a missing database would look empty to readers for ever
    web = create_web_app(app, page_keys(app), (host,))
    async with open_server(web.asgi, host, port, also=_BOTH.get(host)) as url:
        number = int(url.rpartition(":")[2])
        shown = f"http://{web.keys.host}:{number}" if is_shared(host) else url
        note = web.keys.announce(shown, number, os.getpid())
        _log.info("serving the page at %s; its state folder is %s", url, app.state_dir)
        warming = asyncio.create_task(run_in_threadpool(web.renderer.warm_up))
        try:
            yield lambda where: f"{shown}{web.keys.make_link(where)}"
        finally:
            _log.info("the page at %s is not served any more", url)
            note.unlink(missing_ok=True)
            await warming
            await asyncio.to_thread(web.close)


def _refuse_everywhere(host: str) -> None:
    """Refuse all addresses at once: the port would be open to every network, the page to no browser there."""
    if not host.strip("0.:*[]"):
        raise UsageError(
            f"The page cannot be served on {host or 'no address'}: that opens the port to every network of "
            "this machine, while a browser is let in only at the one address that the page knows.",
            kept="Nothing was started.",
            hint="From elsewhere use a tunnel: ssh -L 8787:127.0.0.1:8787 HOST   Or name one address: "
            "segue serve --host ADDRESS",
        )


class WebApp(Struct, frozen=True):
    """The ASGI app, with the keys that let people in."""

    asgi: AsgiApp
    keys: PageKeys
    live: LiveUpdates
    renderer: PageRenderer

    def close(self) -> None:
        """End the streams and close the stores."""
        self.live.close()
        self.renderer.close()


def create_web_app(app: App, keys: PageKeys, hosts: Sequence[str] = ()) -> WebApp:
    """Create the app; `hosts` are allowed host names besides its own and those of loopback."""
    live = LiveUpdates(app)
    renderer = PageRenderer(app, live)
    routes = [
        Route("/", _redirect_home),
        Route("/health", _report_health),
        Route(ENTRY, _let_in(keys)),
        Route("/static/{name}", _send_asset),
        Route("/live", _stream_updates(live)),
    ]
    for page in list_pages():
        routes += _route_page(page, renderer)
    routes += [_route_action(action, app, renderer) for action in list_actions()]
    inner = Starlette(routes=routes, exception_handlers=renderer.error_handlers())
    known = AuthMiddleware(inner, keys, refuse)
    guarded = RequestGuard(
        known, None, (keys.host, *LOOPBACK_HOSTS, *hosts), max_body=_MAX_BODY, same_origin=True
    )
    return WebApp(guarded, keys, live, renderer)


def _route_page(page: PageRoute, renderer: PageRenderer) -> list[Route]:
    async def get_html(request: Request) -> Response:
        return await run_in_threadpool(renderer.html, page, request)

    async def get_json(request: Request) -> Response:
        return await run_in_threadpool(renderer.json, page, request)

    return [Route(f"{page.path}.json", get_json), Route(page.path, get_html)]


def _route_action(action: ActionRoute, app: App, renderer: PageRenderer) -> Route:
    async def post(request: Request) -> Response:
        body = (await request.body()).decode("utf-8", "replace")
        with explain_bugs():
            result = await action.run(app, request.path_params, dict(parse_qsl(body, keep_blank_values=True)))
        _log.info("POST %s: done", request.url.path)
        return renderer.result(request, result)

    return Route(action.path, post, methods=["POST"])


def _stream_updates(live: LiveUpdates) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        last = request.headers.get("last-event-id") or request.query_params.get("after", "")
        after = int(last) if last.isascii() and last.isdecimal() and len(last) < 19 else None
        run = request.query_params.get("run", "")
        _log.debug("a page listens for changes of %s, after event %s", run or "all runs", after)
        messages = to_sse(live.stream(run, after))
        return StreamingResponse(messages, media_type="text/event-stream")

    return endpoint


def _let_in(keys: PageKeys) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        key = request.query_params.get("key", "")
        if is_shared(host_of(request)) and keys.find_link(key):
            # Only those who have a link may know its name.
            port = request.headers["host"].rpartition(":")[2]
            return RedirectResponse(f"http://{keys.host}:{port}{ENTRY}?key={quote(key)}", 307)
        if request.method == "HEAD" and keys.find_link(key):
            return HTMLResponse("")  # whoever only looks whether a link works does not use it up
        where = keys.redeem(key)
        # Neither the key nor the address with it is logged: whoever has them gets in.
        _log.info(
            "a browser came with a link: %s", "let in" if where else "it was used before, or is too old"
        )
        if where is None:
            if keys.is_known(request):
                return RedirectResponse(HOME, 303)
            return HTMLResponse(render_template("stranger.html", why="used"), 403)
        # Not a redirect: a browser sends no Strict cookie along a redirect that started elsewhere.
        body = render_template("entered.html", where=where)
        return HTMLResponse(body, headers={"set-cookie": keys.make_cookie(request)})

    return endpoint


async def _redirect_home(_request: Request) -> Response:
    return RedirectResponse(HOME, 303)


async def _report_health(_request: Request) -> Response:
    return JSONResponse({"ok": True})


async def _send_asset(request: Request) -> Response:
    asset = load_assets().get(request.path_params["name"])
    if asset is None:
        return Response("There is no such file.", 404, media_type="text/plain")
    headers = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(asset.body, 200, headers, media_type=asset.media_type)
