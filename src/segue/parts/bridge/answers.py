"""Decides about tasks as people answer notifications, once, and the run continues.

What was decided is read from the run itself. So a press that a kill interrupted is finished by the next one,
and one that comes after a decision made elsewhere changes nothing. Answers arrive at `/answers` with a token,
and at `/answers/slack` as Slack has signed them.
"""

from __future__ import annotations

import asyncio
import hmac
import html
import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from segue.domain.errors import SegueError
from segue.domain.events import TaskCommented, TaskEnded, TaskMarked, TaskStarted
from segue.domain.notification import AnswerAction, NotifyError
from segue.domain.run import Run
from segue.domain.text import plain
from segue.parts.notify.answers import PATH, AnswerSigner, ExpiredToken, TaskAnswer, WrongToken
from segue.parts.notify.options import NotifySettings
from segue.parts.notify.post import post_json
from segue.parts.notify.slack import SIGNATURE, TIMESTAMP, sign_request
from segue.runtime.app import App
from segue.runtime.comments import comment
from segue.runtime.overrides import decide
from segue.runtime.sources import load_run_app
from segue.view.load import ACTIVE, load_view, state_of

if TYPE_CHECKING:
    from segue.store.store import Store


_Since = TaskCommented | TaskEnded | TaskMarked | TaskStarted
Resume = Callable[[App, Run], Awaitable[None]]
"""Continues a run, wherever it is driven."""

_PATIENCE = 20.0
"""Seconds to wait for a session that is about to end: its notification may be read before it has."""
_PAUSE = 0.2
_MARK = "by notification"
_WORDS: dict[AnswerAction, str] = {
    "accept": "accepted",
    "skip": "skipped",
    "retry": "tried again",
    "answer": "answered",
}


class AnswerReply(Struct, frozen=True):
    """What a person reads after they have pressed a button."""

    status: int
    text: str

    @property
    def is_final(self) -> bool:
        """Whether pressing again makes no difference."""
        return self.status in (200, 404, 409, 410)


class AnswerDesk:
    """Takes tokens and does what they stand for, one at a time for each run."""

    def __init__(self, app: App, store: Store, signer: AnswerSigner | None, resume: Resume) -> None:
        self._app = app
        self._store = store
        self._signer = signer
        self._resume = resume
        self._locks: dict[str, asyncio.Lock] = {}

    def read(self, token: str) -> TaskAnswer | AnswerReply:
        """Return the answer a token stands for, or why it is refused."""
        if self._signer is None:
            return AnswerReply(503, "Notifications have no answers here: notify.answers.url is not set.")
        try:
            return self._signer.read(token, time.time())
        except WrongToken:
            return AnswerReply(401, "This token is not one of ours.")
        except ExpiredToken as error:
            return AnswerReply(410, f"This button is too old. Decide with: {_command(error.answer)}")

    def question(self, answer: TaskAnswer) -> str:
        """Return what the agent of the task asked."""
        return next((one.reason for one in self._since(answer) if isinstance(one, TaskEnded)), "")

    async def answer(self, answer: TaskAnswer, who: str, words: str = "") -> AnswerReply:
        """Do what the answer says, unless something was decided already; `who` is named with the decision.

        `words` are for the agent that asked.
        """
        if answer.action == "answer" and not words.strip():
            return AnswerReply(400, "Write your answer first.")
        async with self._locks.setdefault(answer.run, asyncio.Lock()):
            return await self._answer(answer, f"{_MARK} ({plain(who, 100)})", words)

    async def _answer(self, answer: TaskAnswer, via: str, words: str) -> AnswerReply:
        run = await self._wait_for_end(answer.run)
        if run is None:
            return AnswerReply(404, f"There is no run {answer.run} in the database of this bridge.")
        decided = await asyncio.to_thread(self._find_decision, run, answer)
        if decided:
            return AnswerReply(409, decided)
        if state_of(run) in ACTIVE:
            text = f"Run {run.id} still works on other tasks. Nothing was decided; press again when it waits."
            return AnswerReply(503, text)
        try:
            await self._decide(run, answer, via, words)
        except SegueError as error:
            return AnswerReply(503, f"{_say(error)} Nothing was decided; press again.")
        try:
            text = await self._continue(answer)
        except SegueError as error:
            return AnswerReply(503, f"{_done(answer)} Run {run.id} does not continue yet: {_say(error)}")
        await asyncio.to_thread(self._store.send, run.id, "answer", {"action": answer.action}, _name(answer))
        return AnswerReply(200, text)

    async def _decide(self, run: Run, answer: TaskAnswer, via: str, words: str) -> None:
        """Write the decision down, as `segue task` does; to try again needs none."""
        if answer.action == "retry" or await asyncio.to_thread(self._is_marked, answer):
            return
        app, skip = load_run_app(self._app, run), answer.action == "skip"
        if answer.action == "answer":
            await comment(app, run, answer.task, words, via, answers=True)
            return
        reason = f"skipped: {via}" if skip else f"accepted {via}"
        await decide(app, run, answer.task, reason, skip=skip, via=via)

    async def _continue(self, answer: TaskAnswer) -> str:
        """Resume the run, unless another task waits for a person: resuming would try that one again."""
        run = await asyncio.to_thread(self._store.run, answer.run)
        assert run is not None, "it was there a moment ago"
        view = await asyncio.to_thread(load_view, self._store, run)
        waiting = [key for key, task in view.tasks.items() if task.state == "needs_human"]
        others = [key for key in waiting if key != answer.task]
        if others and answer.action != "retry":
            return f"{_done(answer)} Run {run.id} continues when task {', '.join(others)} is decided, too."
        await self._resume(self._app, run)
        return f"{_done(answer)} Run {run.id} continues."

    async def _wait_for_end(self, run_id: str) -> Run | None:
        """Return the run, after its session has ended if it does so soon."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            run = await asyncio.to_thread(self._store.run, run_id)
            if run is None or run.id != run_id:
                return None
            if state_of(run) not in ACTIVE or time.monotonic() > deadline:
                return run
            await asyncio.sleep(_PAUSE)

    def _find_decision(self, run: Run, answer: TaskAnswer) -> str:
        """Return what was decided about the question since it was asked; empty: nothing."""
        task = answer.task
        known = self._store.query(_ANSWERED, [run.id, _name(answer)])
        if known:
            return f"Task {task} is already decided."
        found = self._since(answer)
        if not found or not isinstance(found[0], TaskEnded):
            return f"Run {run.id} did not ask about task {task} here."
        for event in found[1:]:
            if isinstance(event, TaskMarked) and event.by is not None and not _is_ours(event, answer):
                return f"Task {task} is already {'skipped' if event.skipped else 'accepted'} ({event.by})."
            if not isinstance(event, TaskMarked | TaskCommented):
                return f"Task {task} is already decided: the run has continued."
        return ""

    def _is_marked(self, answer: TaskAnswer) -> bool:
        """Return whether this answer was written down and interrupted then."""
        return any(_is_ours(event, answer) for event in self._since(answer))

    def _since(self, answer: TaskAnswer) -> list[_Since]:
        """Return what happened to the task since it needed a person, with that."""
        kinds = (TaskCommented, TaskEnded, TaskMarked, TaskStarted)
        found = [one.event for one in self._store.events(answer.run, answer.seq - 1, kinds=kinds)]
        return [event for event in found if isinstance(event, kinds) and event.task == answer.task]


_ANSWERED = "SELECT 1 AS one FROM orchestrator_signals WHERE run_id = ? AND id = ?"


def _is_ours(event: _Since, answer: TaskAnswer) -> bool:
    if not isinstance(event, TaskMarked | TaskCommented) or f", {_MARK} (" not in (event.by or ""):
        return False
    if isinstance(event, TaskCommented):
        return answer.action == "answer"
    return answer.action != "answer" and event.skipped == (answer.action == "skip")


def _name(answer: TaskAnswer) -> str:
    return f"answered/{answer.task}/{answer.seq}"


def _done(answer: TaskAnswer) -> str:
    return f"Task {answer.task} is {_WORDS[answer.action]}."


def _say(error: SegueError) -> str:
    return " ".join(filter(None, (error.message, error.hint)))


def _command(answer: TaskAnswer) -> str:
    if answer.action == "retry":
        return f"segue resume {answer.run}"
    more = {"skip": ' --reason "…"', "answer": ' "…"'}.get(answer.action, "")
    return f"segue task {answer.action} {answer.task} --run {answer.run}{more}"


SLACK_PATH = f"{PATH}/slack"
_WINDOW = 300.0
"""Seconds that the time of a request from Slack may differ from ours."""
_TOLD_SECONDS = 20.0
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Segue</title>
<meta name="viewport" content="width=device-width">
<style>body{{font:1.1rem system-ui;margin:3rem auto;max-width:32rem}}button{{font:inherit}}</style>
<p>{words}</p>{form}</html>"""
_FORM = '<form method="post">{field}<button>{label}</button></form>'
_FIELD = (
    '<p><textarea name="text" rows="4" aria-label="Your answer" required style="width:100%"></textarea></p>'
)


class _SlackUser(Struct, frozen=True):
    id: str = ""
    username: str = ""
    name: str = ""


class _SlackPress(Struct, frozen=True):
    action_id: str = ""
    value: str = ""


class SlackInteraction(Struct, frozen=True):
    """The parts of Slack's message about a pressed button that matter."""

    type: str = ""
    user: _SlackUser = _SlackUser()
    actions: list[_SlackPress] = []
    response_url: str = ""


class AnswerRoutes:
    """The request handlers."""

    def __init__(self, desk: AnswerDesk, settings: NotifySettings) -> None:
        self._desk = desk
        self._settings = settings
        self._seen: dict[str, float] = {}
        """The signatures of Slack's requests in the window, so that none counts twice."""
        self._working: set[asyncio.Task[None]] = set()

    def routes(self) -> list[Route]:
        """Return the routes, which need no token but check a signature."""
        return [
            Route(PATH, self.show, methods=["GET"]),
            Route(PATH, self.take, methods=["POST"]),
            Route(SLACK_PATH, self.take_from_slack, methods=["POST"]),
        ]

    def origins(self) -> tuple[str, ...]:
        """Return the web pages that may send answers: our own, and ntfy's."""
        named = (self._settings.answers.url, self._settings.ntfy.url if self._settings.ntfy.topic else "")
        return tuple(_origin(url) for url in named if url)

    async def close(self) -> None:
        """Wait for what people were promised."""
        await asyncio.gather(*self._working, return_exceptions=True)

    async def show(self, request: Request) -> Response:
        """Ask before anything is decided: programs that look where a link leads decide nothing."""
        found = self._desk.read(request.query_params.get("token", ""))
        if isinstance(found, AnswerReply):
            return _page(found)
        words, field = f"Task {found.task} of run {found.run} needs you.", ""
        if found.action == "answer":
            words, field = f"{words} {await asyncio.to_thread(self._desk.question, found)}", _FIELD
        return _page(AnswerReply(200, words), _FORM.format(label=found.action.capitalize(), field=field))

    async def take(self, request: Request) -> Response:
        """Decide as the token says; it is the body, a field of a form, or part of the address."""
        body = await request.body()
        found = self._desk.read(_find_token(request, body))
        words = _find_field(request, body, "text")
        reply = found if isinstance(found, AnswerReply) else await self._desk.answer(found, "link", words)
        if "text/html" in request.headers.get("accept", ""):
            return _page(reply)
        headers = {"cache-control": "no-store"}
        if (origin := request.headers.get("origin", "")) in self.origins():
            headers["access-control-allow-origin"] = origin
        return PlainTextResponse(f"{reply.text}\n", reply.status, headers)

    async def take_from_slack(self, request: Request) -> Response:
        """Check what Slack sends, answer at once, decide, and tell Slack what happened."""
        secret = os.environ.get(self._settings.slack.signing_secret_env, "").strip()
        if not secret:
            name = self._settings.slack.signing_secret_env
            return PlainTextResponse(f"{name} is not set; nothing from Slack is believed\n", 503)
        body = await request.body()
        if refused := self._refuse(secret, request, body):
            return PlainTextResponse(f"{refused}\n", 401)
        try:
            payload = parse_qs(body.decode())["payload"][0]
            press = msgspec.json.decode(payload, type=SlackInteraction)
        except (KeyError, ValueError, RecursionError):
            return PlainTextResponse("this is not an interaction\n", 400)
        tokens = [one.value for one in press.actions if one.action_id.startswith("segue-") and one.value]
        if press.type == "block_actions" and tokens:
            work = asyncio.create_task(self._answer_slack(press, tokens[0]))
            self._working.add(work)
            work.add_done_callback(self._working.discard)
        return Response(status_code=200)

    def _refuse(self, secret: str, request: Request, body: bytes) -> str:
        """Return why a request is refused; empty if it is accepted."""
        at, given = request.headers.get(TIMESTAMP, ""), request.headers.get(SIGNATURE, "")
        right = sign_request(secret, at, body)
        if not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), right.encode()):
            return "the signature is missing or wrong"
        now = time.time()
        if not (at.isascii() and at.isdecimal()) or abs(now - int(at)) > _WINDOW:
            return "the request is too old, or a clock is wrong"
        self._seen = {known: until for known, until in self._seen.items() if until > now}
        if right in self._seen:
            return "the request was delivered before"
        self._seen[right] = int(at) + _WINDOW
        return ""

    async def _answer_slack(self, press: SlackInteraction, token: str) -> None:
        users = self._settings.slack.users
        found = self._desk.read(token)
        if users and press.user.id not in users:
            reply = AnswerReply(403, "You may not answer here: notify.slack.users names who may.")
        elif isinstance(found, TaskAnswer):
            name = press.user.username or press.user.name
            reply = await self._desk.answer(found, f"Slack, {name} {press.user.id}")
        else:
            reply = found
        await self._tell_slack(press.response_url, reply)

    async def _tell_slack(self, where: str, reply: AnswerReply) -> None:
        """Put what happened in the place of the message; what can be repeated goes to one person alone."""
        hook = self._settings.slack.url
        if hook is None or _origin(where) != _origin(hook.reveal()):
            return  # only to the server that the notification was sent to
        text = html.escape(f"Segue: {reply.text}", quote=False)
        alone: dict[str, Any] = {"replace_original": False, "response_type": "ephemeral"}
        how: dict[str, Any] = {"replace_original": True} if reply.is_final else alone
        try:
            await post_json(where, {"text": text, **how}, {}, _TOLD_SECONDS)
        except NotifyError:
            return  # the decision counts; `segue status` shows it


def _find_token(request: Request, body: bytes) -> str:
    if named := request.query_params.get("token"):
        return named
    return (
        _find_field(request, body, "token") if _is_form(request) else body.decode("utf-8", "replace").strip()
    )


def _find_field(request: Request, body: bytes, name: str) -> str:
    return parse_qs(body.decode("utf-8", "replace")).get(name, [""])[0] if _is_form(request) else ""


def _is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")


def _page(reply: AnswerReply, form: str = "") -> HTMLResponse:
    return HTMLResponse(_PAGE.format(words=html.escape(reply.text), form=form), reply.status, _HEADERS)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
