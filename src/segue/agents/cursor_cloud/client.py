"""The Cloud Agents API v1: durable agents, runs, streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Any
from urllib.parse import quote

from segue.agents.cursor.tools import table
from segue.agents.cursor_cloud.api import TURN, Branch, Order, Place, Used, View, minted_id
from segue.agents.cursor_cloud.errors import CloudError, bad_answer, refusal, unreachable
from segue.agents.cursor_cloud.sse import Frame, SseParser
from segue.agents.cursor_cloud.status import normalised
from segue.system.http.client import HttpClient, HttpError, HttpResponse, parse_date


class CloudV1:
    """The current generation."""

    mints_ids = True
    streams = True
    tells_cancelled = True

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    def owns(self, place: Place) -> bool:
        """Whether it names a run."""
        return bool(place.agent and place.run) and not place.run.startswith(TURN)

    async def launch(self, order: Order, deadline: float) -> Place:
        """Launch an agent under the id that the token gives; safe to repeat, because ids are taken once."""
        agent = minted_id(order.token)
        body: dict[str, Any] = {
            "agentId": agent,
            **_asked(order),
            "repos": [_present({"url": order.repository, "startingRef": order.ref})],
            "autoCreatePR": order.auto_create_pr,
            **_present({"name": order.name[:100], "workOnCurrentBranch": order.on_ref}),
        }
        headers = {"Idempotency-Key": order.token}
        answer = await ask(
            self._http, "POST", "/v1/agents", deadline, body=body, headers=headers, repeatable=True
        )
        return Place(agent, _id(answer, table(content(answer).get("run")), "run"))

    async def find(self, token: str, deadline: float) -> Place | None:
        """The agent whose id the token gives."""
        try:
            return await self.latest(minted_id(token), deadline)
        except CloudError as error:
            if error.gone:
                return None
            raise

    async def latest(self, agent: str, deadline: float) -> Place:
        """The newest run of an agent."""
        answer = await ask(self._http, "GET", _path(agent), deadline)
        run = content(answer).get("latestRunId")
        if isinstance(run, str) and run:
            return Place(agent, run)
        answer = await ask(self._http, "GET", f"{_path(agent)}/runs", deadline, query={"limit": "1"})
        items = content(answer).get("items")
        first = items[0] if isinstance(items, list) and items else None
        return Place(agent, _id(answer, table(first), "run"))

    async def follow_up(self, last: Place, order: Order, deadline: float) -> Place:
        """Start another run. Nobody promises that the key is looked at, so this is not repeated blindly."""
        answer = await ask(
            self._http,
            "POST",
            f"{_path(last.agent)}/runs",
            deadline,
            body=_asked(order),
            headers={"Idempotency-Key": order.token},
        )
        return Place(last.agent, _id(answer, table(content(answer).get("run")), "run"))

    async def get(self, place: Place, deadline: float) -> View:
        """Where a run stands."""
        answer = await ask(self._http, "GET", _run_path(place), deadline)
        run = content(answer)
        took = run.get("durationMs")
        return View(
            normalised(run.get("status")),
            str(run.get("status")),
            text=_string(run.get("result")),
            error=_error_text(run.get("error")),
            branches=_branches(run.get("git")),
            duration=took / 1000 if isinstance(took, int | float) else None,
            age=age(answer, run.get("createdAt")),
        )

    async def stream(self, place: Place, last_id: str | None, silence: float) -> AsyncGenerator[Frame, None]:
        """What a run says, from after the id."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        parser = SseParser()
        try:
            async with self._http.stream(f"{_run_path(place)}/stream", headers, silence) as (head, pieces):
                if head.status != 200:
                    raise refusal(head)
                async with aclosing(pieces):
                    async for piece in pieces:
                        for frame in parser.feed(piece):
                            yield frame
        except HttpError as error:
            raise unreachable(error) from None

    async def cancel(self, place: Place, deadline: float) -> bool:
        """End a run; asking twice does no harm."""
        try:
            await ask(self._http, "POST", f"{_run_path(place)}/cancel", deadline, repeatable=True)
        except CloudError as error:
            if error.code != "run_not_cancellable":
                raise
            return False
        return True

    async def usage(self, place: Place, deadline: float) -> Used | None:
        """What a run has used."""
        answer = await ask(
            self._http, "GET", f"{_path(place.agent)}/usage", deadline, query={"runId": place.run}
        )
        runs = content(answer).get("runs")
        found = (
            [table(run) for run in runs if table(run).get("id") == place.run]
            if isinstance(runs, list)
            else []
        )
        if not found:
            return None
        usage, cost = table(found[0].get("usage")), table(found[0].get("cost"))
        return Used(
            _count(usage.get("inputTokens")),
            _count(usage.get("outputTokens")),
            _count(usage.get("cacheReadTokens")),
            _count(usage.get("cacheWriteTokens")),
            _cents(cost),
        )


async def ask(http: HttpClient, method: str, path: str, deadline: float, **more: Any) -> HttpResponse:
    """One request; everything but a success is raised."""
    try:
        answer = await http.request(method, path, deadline=deadline, **more)
    except HttpError as error:
        raise unreachable(error) from None
    if not 200 <= answer.status < 300:
        raise refusal(answer)
    return answer


def content(answer: HttpResponse) -> Mapping[str, Any]:
    """The object in an answer."""
    try:
        found = answer.json()
    except ValueError:
        raise bad_answer(answer, "it is no JSON") from None
    if not isinstance(found, Mapping):
        raise bad_answer(answer, "it is no object")
    return found


def age(answer: HttpResponse, created: Any) -> float | None:
    """Seconds since something was created, by the server's own clock; ours may be wrong."""
    now = parse_date(answer.headers.get("date", ""))
    try:
        then = datetime.fromisoformat(created)
    except (TypeError, ValueError):
        return None
    return max(0.0, now - then.timestamp()) if now is not None and then.tzinfo else None


def _asked(order: Order) -> dict[str, Any]:
    model = {"model": {"id": order.model}} if order.model else {}
    return {"prompt": {"text": order.prompt}, "mode": "plan" if order.plan else "agent", **model}


def _path(agent: str) -> str:
    return f"/v1/agents/{quote(agent, safe='')}"


def _run_path(place: Place) -> str:
    return f"{_path(place.agent)}/runs/{quote(place.run, safe='')}"


def _id(answer: HttpResponse, found: Mapping[str, Any], what: str) -> str:
    name = found.get("id")
    if not isinstance(name, str) or not name:
        raise bad_answer(answer, f"no id of a {what}")
    return name


def _branches(git: Any) -> tuple[Branch, ...]:
    listed = table(git).get("branches")
    entries = [table(entry) for entry in listed] if isinstance(listed, list) else []
    return tuple(
        Branch(_string(entry.get("repoUrl")), _string(entry.get("branch")), _string(entry.get("prUrl")))
        for entry in entries
    )


def _error_text(error: Any) -> str:
    """The error in words; nobody has written down its shape."""
    if isinstance(error, str):
        return error
    found = table(error)
    return _string(found.get("message")) or _string(found.get("code")) or (str(error) if error else "")


def _cents(cost: Mapping[str, Any]) -> float | None:
    """What is charged, or else what it is worth."""
    for name in ("chargedCents", "rawCostCents"):
        value = cost.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return float(value)
    return None


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
