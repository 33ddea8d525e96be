"""The page as an ASGI app: guard, door, routes of all pages with their twins, acts and the live stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from segue.runtime.wiring import App
from segue.system.http.guard import LOOPBACK_HOSTS, AsgiApp, RequestGuard
from segue.web.answers import Answers, draw, spoken, stranger
from segue.web.assets import assets
from segue.web.auth import ENTRY, Door, Keys
from segue.web.live import Live
from segue.web.pages import Act, Page, acts, pages
from segue.web.stream import as_stream

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

HOME = "/runs"
_MAX_BODY = 64 * 1024
Endpoint = Callable[["Request"], Coroutine[Any, Any, "Response"]]


@dataclass(frozen=True, slots=True)
class Web:
    """The app, and what whoever serves it needs: links that let people in, and a way to end its streams."""

    asgi: AsgiApp
    keys: Keys
    live: Live
    answers: Answers

    def close(self) -> None:
        """End the streams and close the stores."""
        self.live.close()
        self.answers.close()


def web_app(app: App, token: str, hosts: Sequence[str] = ()) -> Web:
    """The page for one set of settings; `hosts` are names beside those of loopback."""
    keys, live = Keys(token), Live(app)
    answers = Answers(app, live)
    door = Door(_routes(app, keys, live, answers), keys, stranger)
    guarded = RequestGuard(door, None, (*LOOPBACK_HOSTS, *hosts), max_body=_MAX_BODY, same_origin=True)
    return Web(guarded, keys, live, answers)


def _routes(app: App, keys: Keys, live: Live, answers: Answers) -> Starlette:
    from starlette.applications import Starlette
    from starlette.routing import Route

    routes = [
        Route("/", _home),
        Route("/health", _health),
        Route(ENTRY, _enter(keys)),
        Route("/static/{name}", _static),
        Route("/live", _live(live)),
    ]
    for page in pages():
        routes += _page(page, answers)
    routes += [_act(act, app, answers) for act in acts()]
    return Starlette(routes=routes, exception_handlers=answers.handlers())


def _page(page: Page, answers: Answers) -> list[Route]:
    from starlette.concurrency import run_in_threadpool
    from starlette.routing import Route

    async def html(request: Request) -> Response:
        return await run_in_threadpool(answers.html, page, request)

    async def twin(request: Request) -> Response:
        return await run_in_threadpool(answers.json, page, request)

    return [Route(f"{page.path}.json", twin), Route(page.path, html)]


def _act(act: Act, app: App, answers: Answers) -> Route:
    from starlette.routing import Route

    async def post(request: Request) -> Response:
        form = _fields(await request.body())
        with spoken():
            done = await act.do(app, request.path_params, form)
        return answers.done(request, done)

    return Route(act.path, post, methods=["POST"])


def _fields(body: bytes) -> Mapping[str, str]:
    """The fields of a form; the last one of a name counts."""
    from urllib.parse import parse_qsl

    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _live(live: Live) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        from starlette.responses import StreamingResponse

        told = request.headers.get("last-event-id") or request.query_params.get("after", "")
        after = int(told) if told.isascii() and told.isdecimal() and len(told) < 19 else None
        messages: AsyncIterator[str] = as_stream(live.stream(request.query_params.get("run", ""), after))
        return StreamingResponse(messages, media_type="text/event-stream")

    return endpoint


def _enter(keys: Keys) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        from starlette.responses import RedirectResponse, Response

        where = keys.use(request.query_params.get("key", ""))
        if where is None:
            if keys.known(request.scope):
                return RedirectResponse(HOME, 303)
            return Response(draw("stranger.html", why="used"), 403, media_type="text/html")
        # Not a redirect: a browser sends no Strict cookie along a redirect that began elsewhere.
        body = draw("entered.html", where=where)
        return Response(body, 200, {"set-cookie": keys.cookie(request.scope)}, media_type="text/html")

    return endpoint


async def _home(_request: Request) -> Response:
    from starlette.responses import RedirectResponse

    return RedirectResponse(HOME, 303)


async def _health(_request: Request) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse({"ok": True})


async def _static(request: Request) -> Response:
    from starlette.responses import Response

    found = assets().get(request.path_params["name"])
    if found is None:
        return Response("There is no such file.", 404, media_type="text/plain")
    return Response(
        found.body, 200, {"cache-control": "public, max-age=31536000, immutable"}, media_type=found.kind
    )
