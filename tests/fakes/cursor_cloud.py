"""A stand-in for Cursor's Cloud Agents API, v1 and v0, whose agents push real commits to bare repositories.

A script is a table: `repos` (address = bare repository), `keys` that are known (none: any), `stopped_status`
(what v0 shows after a stop), `faults` of requests (see `tests.fakes.serving`; `fault(NAME)` makes those of
this API), and `on`, a list of what agents do. The first entry whose `prompt` (a regular expression), `turn`
(1 is the launch) and `launch` (the number of the agent) fit, and that was not played `times` times yet, is
played: `write`, `delete`, `say`, `tools`, `delay`, `hold` (until POST /_sim/release), `push` ("early" or
"end"), `statuses`, `usage`, `cost`, `error`, and `faults`:

  stuck, hang, unknown_status   stays CREATING, RUNNING, HIBERNATING
  error, error_bare, expired    ends in ERROR after a push, in ERROR without a reason, in EXPIRED
  no_branch, several_branches, unnamed_branch, branch_deleted, webhook_duplicate

Texts may contain {prompt}, {turn}, {launch}, {slug} and named groups of `prompt`. POST /_sim/script replaces
the script, POST /_sim/on puts entries before the others, GET /_sim/state counts agents.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import re
import secrets
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.fakes.serving import Gate, main

Json = dict[str, Any]
TERMINAL = ("FINISHED", "ERROR", "CANCELLED", "EXPIRED", "FAILED", "STOPPED", "DELETED")
_CODES = {
    400: ("validation_error", "invalid_last_event_id"),
    401: ("unauthorized", "api_key_not_found"),
    403: ("plan_required", "role_forbidden", "integration_not_connected"),
    404: ("agent_not_found", "run_not_found"),
    409: ("agent_busy", "agent_archived", "agent_deleted", "agent_id_conflict", "run_not_cancellable"),
    410: ("stream_expired",),
    429: ("rate_limit_exceeded",),
}
ERRORS = {code: status for status, codes in _CODES.items() for code in codes}
_RAW: Mapping[str, Json] = {
    "reset": {"cut": "before"},
    "reset_after": {"cut": "after"},
    "bad_gateway": {"status": 502},
    "not_json": {"status": 200, "body": '{"items": [{"id": "bc-'},
    "internal": {"status": 500, "body": {"code": "internal", "message": "Error"}},
}
_LIVES = {
    "stuck": ["CREATING"],
    "hang": ["CREATING", "RUNNING"],
    "unknown_status": ["CREATING", "RUNNING", "HIBERNATING"],
    "error": ["CREATING", "RUNNING", "ERROR"],
    "error_bare": ["CREATING", "RUNNING", "ERROR"],
    "expired": ["CREATING", "RUNNING", "EXPIRED"],
}
_PUSH_NOTHING = {"no_branch", "error_bare", "expired", "hang", "unknown_status"}
_BRANCHES = {"no_branch", "several_branches", "unnamed_branch", "branch_deleted"}
_RUN_FAULTS = {*_LIVES, *_BRANCHES, "webhook_duplicate"}
_SCRIPT = {"on", "faults", "repos", "keys", "stopped_status"}
_ENTRY = {
    *("prompt", "turn", "launch", "times", "write", "delete", "say", "tools", "delay", "hold", "push"),
    *("statuses", "usage", "cost", "error", "faults"),
}
_MODELS = {"composer-2.5": "Composer 2.5", "gpt-5.2": "GPT-5.2"}
_USAGE = ("inputTokens", "outputTokens", "cacheWriteTokens", "cacheReadTokens")
_AGENT_ID = re.compile(r"bc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_AUTHOR = "Cursor Agent <cursoragent@cursor.com>"


def fault(name: str, on: str = "*", **more: Any) -> Json:
    """Return a fault of requests: an error code of this API, or one of `_RAW`."""
    headers = {"Retry-After": str(after)} if (after := more.pop("retry_after", None)) is not None else {}
    what = _RAW.get(name)
    if what is None:
        what = {"status": ERRORS[name], "body": Refusal(name).body}
    return {"on": on, "headers": headers, **what, **more}


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, code: str, message: str = "") -> None:
        self.status = ERRORS[code]
        self.body = {"error": {"code": code, "message": message or f"It is refused: {code}."}}


class Repository:
    """A bare repository, to which agents push."""

    def __init__(self, url: str, bare: Path) -> None:
        self.url, self._bare = url, bare

    def git(self, *args: str, stdin: bytes = b"") -> str:
        done = subprocess.run(["git", *args], cwd=self._bare, input=stdin, capture_output=True, check=False)
        return done.stdout.decode().strip()

    def resolve(self, ref: str, kind: str = "commit") -> str:
        """Return the commit of a ref or its tree; nothing if there is none."""
        return self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{{kind}}}")

    def push(self, branches: Sequence[str], base: str, run: Run) -> bool:
        """Put one commit on top of the first branch; return whether it changes anything."""
        parent = self.resolve(f"refs/heads/{branches[0]}") or base
        commit = self.git("fast-import", "--quiet", stdin=_write_import(parent, run))
        if parent and self.resolve(commit, "tree") == self.resolve(parent, "tree"):
            return False
        for branch in branches:
            self.git("update-ref", f"refs/heads/{branch}", commit)
        return True


def _write_import(parent: str, run: Run) -> bytes:
    """Write the commit of a run for `git fast-import`, which prints its id at the end."""
    write, delete = run.entry.get("write"), run.entry.get("delete", [])
    if write is None and not delete:
        write = {"notes/{slug}-{turn}.md": "# {slug}\n\n{prompt}\n"}
    files = {run.fill(path): run.fill(text) for path, text in (write or {}).items()}
    title = (run.prompt.strip().splitlines() or ["Work"])[0][:72]
    lines = [f"commit refs/fake/{run.id}", "mark :1", f"committer {_AUTHOR} {int(time.time())} +0000"]
    lines += [f"data {len(title.encode())}", title, *([f"from {parent}"] if parent else [])]
    lines += [f'D "{run.fill(path)}"' for path in delete]
    for path, text in files.items():
        lines += [f'M 100644 inline "{path}"', f"data {len(text.encode())}", text]
    return "\n".join([*lines, "", "get-mark :1", ""]).encode()


@dataclass(eq=False)
class Run:
    """One turn of an agent."""

    number: int
    prompt: str
    entry: Json
    words: dict[str, str]
    plans: bool
    id: str = field(default_factory=lambda: f"run-{uuid.uuid4()}")
    status: str = "CREATING"
    created: float = field(default_factory=time.time)
    ended: float = 0.0
    result: str | None = None
    error: Any = None
    usage: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*_USAGE, "totalTokens"), 0))
    cost: dict[str, float] | None = None
    task: asyncio.Task[None] | None = None
    released: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def has(self, *names: str) -> bool:
        """Return whether one of these goes wrong."""
        return bool({*names} & {*self.entry.get("faults", ())})

    def fill(self, text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: self.words.get(found[1], found[0]), text)

    @property
    def reply(self) -> str:
        return self.fill(self.entry.get("say", f"Done: {self.prompt[:200]}"))

    async def stream(self, after: int) -> AsyncIterator[str]:
        """Yield its status and, when it is over, all events but the first ones."""
        yield f"event: status\ndata: {json.dumps({'runId': self.id, 'status': self.status})}\n\n"
        await self.over.wait()
        events: list[tuple[str, Json]] = []
        for number, tool in enumerate(self.entry.get("tools", [])):
            call = {"callId": f"toolu_{number}", "name": tool["name"], "args": tool.get("args", {})}
            result = {"success": tool.get("result", {})}
            events += [("tool_call", {**call, "status": "running"})]
            events += [("tool_call", {**call, "status": "completed", "result": result})]
        events += [("assistant", {"text": self.reply[at : at + 24]}) for at in range(0, len(self.reply), 24)]
        ending = _drop_missing(runId=self.id, status=self.status, text=self.result)
        for number, (name, data) in enumerate([*events, ("result", ending), ("done", {})], 1):
            if number > after:
                yield f"id: {self.id}-{number}\nevent: {name}\ndata: {json.dumps(data)}\n\n"


@dataclass(eq=False)
class Agent:
    """An agent, where it works, and its runs."""

    id: str
    number: int
    name: str
    request: Json
    repository: Repository | None
    ref: str | None
    base: str
    branch: str
    created: float = field(default_factory=time.time)
    archived: bool = False
    deleted: bool = False
    pushed: list[str] = field(default_factory=list)
    """The branches that are reported; an empty one without its name."""
    runs: list[Run] = field(default_factory=list)
    messages: list[Json] = field(default_factory=list)

    @property
    def latest(self) -> Run:
        return self.runs[-1]

    @property
    def url(self) -> str:
        return f"https://cursor.com/agents/{self.id}"

    def list_branches(self) -> list[Json]:
        """List what was pushed, as the API reports it."""
        if self.repository is None:
            return []
        where = self.repository.url
        wants_pull = self.request.get("autoCreatePR") or self.request.get("target", {}).get("autoCreatePr")
        pull = f"https://{where}/pull/{self.number}" if wants_pull else None
        return [_drop_missing(repoUrl=where, branch=name or None, prUrl=pull) for name in self.pushed]

    def describe(self) -> Json:
        """Describe the agent as v1 does; its status says nothing about runs."""
        return _drop_missing(
            id=self.id,
            name=self.name,
            status="ARCHIVED" if self.archived else "ACTIVE",
            repos=self.request.get("repos"),
            url=self.url,
            createdAt=_show_time(self.created),
            latestRunId=self.latest.id,
        )

    def describe_run(self, run: Run) -> Json:
        """Describe a run as v1 does; what was pushed is the same for all."""
        return _drop_missing(
            id=run.id,
            agentId=self.id,
            status=run.status,
            createdAt=_show_time(run.created),
            durationMs=int((run.ended - run.created) * 1000) if run.ended else None,
            result=run.result,
            error=run.error,
            git={"branches": self.list_branches()} if self.pushed else None,
        )

    def describe_v0(self, stopped_status: str) -> Json:
        """Describe the agent as v0 does."""
        run, pushed = self.latest, (self.list_branches() or [{}])[0]
        where = f"https://{self.repository.url}" if self.repository else None
        return _drop_missing(
            id=self.id,
            name=self.name,
            status=stopped_status if run.status == "CANCELLED" else run.status,
            source=_drop_missing(repository=where, ref=self.ref),
            target=_drop_missing(branchName=pushed.get("branch"), url=self.url, prUrl=pushed.get("prUrl")),
            summary=run.result,
            createdAt=_show_time(self.created),
        )


class Cloud:
    """The agents, and the script they follow."""

    def __init__(self, script: Mapping[str, Any]) -> None:
        self.agents: dict[str, Agent] = {}
        self.repositories: dict[str, Repository] = {}
        self.play(script)

    def play(self, script: Mapping[str, Any]) -> None:
        """Play a script from its beginning; agents and repositories stay."""
        if unknown := set(script) - _SCRIPT:
            raise ValueError(f"a script has no {', '.join(sorted(unknown))}")
        self.script = script
        self.entries: list[Json] = []
        self.played: Counter[int] = Counter()
        self.put_first(script.get("on", []))
        for url, bare in script.get("repos", {}).items():
            self.repositories[_normalize(url)] = Repository(_normalize(url), Path(bare))

    def put_first(self, entries: Sequence[Json]) -> None:
        """Try these entries before the others."""
        for entry in entries:
            if unknown := {*(set(entry) - _ENTRY), *(set(entry.get("faults", ())) - _RUN_FAULTS)}:
                raise ValueError(f"an entry has no {', '.join(sorted(unknown))}")
        self.entries = [*entries, *self.entries]

    def launch(self, body: Json, repo: Json, branch: str = "") -> Agent:
        """Add an agent and start its first run; `repo` is empty for one that works nowhere."""
        text = _read_prompt(body)
        agent_id = body.get("agentId") or f"bc-{uuid.uuid4()}"
        if not _AGENT_ID.fullmatch(agent_id):
            raise Refusal("validation_error", "agentId: must look like bc-<uuid>")
        if agent_id in self.agents:
            raise Refusal("agent_id_conflict")
        name = body.get("name") or (text.strip().splitlines() or ["Agent"])[0][:60]
        found, ref, base = None, repo.get("startingRef"), ""
        if repo:
            url = str(repo.get("url"))
            found = self.repositories.get(_normalize(url))
            if found is None:
                raise Refusal("validation_error", f"repository {url} cannot be found or accessed")
            base = found.resolve(ref or "HEAD")
            if ref and not base:
                raise Refusal("validation_error", f"Failed to verify existence of branch {ref!r} in {url}")
            if body.get("workOnCurrentBranch"):
                branch = ref or found.git("symbolic-ref", "--short", "HEAD")
        branch = branch or f"cursor/{_make_slug(name)}-{secrets.token_hex(4)}"
        agent = Agent(agent_id, len(self.agents) + 1, name, body, found, ref, base, branch)
        self.agents[agent_id] = agent
        self.start(agent, text, body.get("mode") == "plan")
        return agent

    def follow_up(self, agent: Agent, body: Json) -> Run:
        """Start another run of an agent that is free."""
        if agent.archived:
            raise Refusal("agent_archived")
        if not agent.latest.ended:
            raise Refusal("agent_busy")
        return self.start(agent, _read_prompt(body), body.get("mode") == "plan")

    def start(self, agent: Agent, prompt: str, plans: bool) -> Run:
        """Add a run and start it."""
        turn = len(agent.runs) + 1
        entry = self._pick(prompt, turn, agent.number)
        found = re.search(entry.get("prompt", ""), prompt)
        words = {"prompt": prompt, "turn": str(turn), "launch": str(agent.number), "slug": _make_slug(prompt)}
        words |= {name: value or "" for name, value in (found.groupdict() if found else {}).items()}
        run = Run(turn, prompt, entry, words, plans)
        agent.runs.append(run)
        agent.messages.append({"id": run.id, "type": "user_message", "text": prompt})
        run.task = asyncio.create_task(self._do(agent, run))
        return run

    def _pick(self, prompt: str, turn: int, launch: int) -> Json:
        for entry in self.entries:
            left = not entry.get("times") or self.played[id(entry)] < entry["times"]
            fits = entry.get("turn", turn) == turn and entry.get("launch", launch) == launch
            if left and fits and re.search(entry.get("prompt", ""), prompt):
                self.played[id(entry)] += 1
                return entry
        return {}

    async def _do(self, agent: Agent, run: Run) -> None:
        """Pass through the statuses of a run; a last one that is not terminal stays."""
        life = next((life for name, life in _LIVES.items() if run.has(name)), None)
        for status in life or run.entry.get("statuses") or ["CREATING", "RUNNING", "FINISHED"]:
            if status in TERMINAL:
                self.finish(agent, run, status)
                with suppress(httpx2.HTTPError):
                    await self._notify(agent, run)
                return
            run.status = status
            if status == "RUNNING":
                await self._work(agent, run)

    async def _work(self, agent: Agent, run: Run) -> None:
        if run.entry.get("push") == "early":
            self._push(agent, run)
        await asyncio.sleep(run.entry.get("delay", 0.02))
        if run.entry.get("hold"):
            await run.released.wait()
        if run.entry.get("push") != "early":
            self._push(agent, run)

    def _push(self, agent: Agent, run: Run) -> None:
        at = agent.repository
        if at is None or run.plans or run.has(*_PUSH_NOTHING):
            return
        branches = [agent.branch, *([f"{agent.branch}-b"] if run.has("several_branches") else [])]
        if at.push(branches, agent.base, run):
            names = [""] if run.has("unnamed_branch") else branches
            agent.pushed = [*dict.fromkeys([*agent.pushed, *names])]
        if run.has("branch_deleted"):
            at.git("update-ref", "-d", f"refs/heads/{agent.branch}")

    def finish(self, agent: Agent, run: Run, status: str) -> None:
        """End a run for good."""
        run.status, run.ended, entry = status, time.time(), run.entry
        counted = {"inputTokens": 1000 + len(run.prompt) // 4, "outputTokens": 100 + len(run.reply) // 4}
        run.usage |= entry.get("usage", counted)
        run.usage["totalTokens"] = sum(run.usage[name] for name in _USAGE)
        cents = run.usage["totalTokens"] / 1000
        run.cost = entry.get("cost", {"rawCostCents": cents, "chargedCents": cents})
        if status == "FINISHED":
            run.result = run.reply
            agent.messages.append({"id": run.id, "type": "assistant_message", "text": run.result})
        elif status == "ERROR" and not run.has("error_bare"):
            run.error = entry.get("error", {"code": "agent_error", "message": "The agent failed."})
        run.over.set()

    def cancel(self, agent: Agent, run: Run) -> None:
        """End a run that is active."""
        if run.ended:
            raise Refusal("run_not_cancellable")
        if run.task is not None:
            run.task.cancel()
        self.finish(agent, run, "CANCELLED")

    async def _notify(self, agent: Agent, run: Run) -> None:
        """Send the signed webhook of v0: of runs that are FINISHED or in ERROR, and of no other."""
        hook = agent.request.get("webhook")
        if not hook or run.status not in ("FINISHED", "ERROR"):
            return
        facts = {"event": "statusChange", "timestamp": _show_time(run.ended), **agent.describe_v0("")}
        body = json.dumps(facts).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "Cursor-Agent-Webhook/1.0"}
        headers |= {"X-Webhook-Event": "statusChange", "X-Webhook-ID": str(uuid.uuid4())}
        if secret := hook.get("secret"):
            headers["X-Webhook-Signature"] = f"sha256={hmac.new(secret.encode(), body, 'sha256').hexdigest()}"
        async with httpx2.AsyncClient(timeout=10.0, trust_env=False) as client:
            for _ in range(2 if run.has("webhook_duplicate") else 1):
                await client.post(hook["url"], content=body, headers=headers)

    async def close(self) -> None:
        """Stop all runs."""
        tasks = [run.task for agent in self.agents.values() for run in agent.runs if run.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _read_prompt(body: Json) -> str:
    prompt = body.get("prompt")
    text = prompt.get("text") if isinstance(prompt, dict) else None
    if not isinstance(text, str) or not text:
        raise Refusal("validation_error", "prompt.text: Required")
    return text


def _normalize(url: str) -> str:
    """Write an address as the API does: no scheme, no user, no `.git`, host in lower case."""
    host, _, path = (url.partition("://")[2] or url).rpartition("@")[2].strip("/").partition("/")
    return f"{host.lower()}/{path.removesuffix('.git')}"


def _make_slug(text: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", text.lower())[:6])[:40].strip("-") or "task"


def _drop_missing(**facts: Any) -> Json:
    return {name: value for name, value in facts.items() if value is not None}


def _show_time(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_v1(request: Request) -> bool:
    return request.url.path.startswith("/v1/")


def _find_run(agent: Agent, request: Request) -> Run:
    for run in agent.runs:
        if run.id == request.path_params["run"]:
            return run
    raise Refusal("run_not_found")


def _take_page(request: Request, name: str, items: Sequence[Json]) -> Json:
    """Return one page, newest first; the cursor of the next is missing at the end."""
    limit, start = int(request.query_params.get("limit", 20)), int(request.query_params.get("cursor") or 0)
    following = {"nextCursor": str(start + limit)} if start + limit < len(items) else {}
    return {name: list(reversed(items))[start : start + limit], **following}


Handler = Callable[["Api", Request], Awaitable[Any]]


class Api:
    """Both versions over HTTP."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    async def answer(self, handler: Handler, request: Request) -> Response:
        """Answer a request, or say why not."""
        try:
            self._check_key(request)
            answer = await handler(self, request)
        except Refusal as refusal:
            return JSONResponse(refusal.body, refusal.status)
        except ValueError as error:
            return JSONResponse({"error": {"code": "validation_error", "message": str(error)}}, 400)
        return answer if isinstance(answer, Response) else JSONResponse(answer)

    def _check_key(self, request: Request) -> None:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            key = base64.b64decode(key).decode().partition(":")[0]
        known = self.cloud.script.get("keys") or [key]
        if not request.url.path.startswith("/_sim/") and not (key and key in known):
            raise Refusal("api_key_not_found" if key else "unauthorized")

    async def create(self, request: Request) -> Any:
        body, v1 = await request.json(), _is_v1(request)
        model = body.get("model")
        if v1 and not isinstance(model, dict | None):
            raise Refusal("validation_error", "model: Expected object, received string")
        name = model.get("id") if isinstance(model, dict) else model
        if name not in (None, "default", *_MODELS):
            raise Refusal("validation_error", f"model: unknown model {name!r}")
        if v1:
            agent = self.cloud.launch(body, (body.get("repos") or [{}])[0])
            return JSONResponse({"agent": agent.describe(), "run": agent.describe_run(agent.latest)}, 201)
        source = body.get("source", {})
        repo = {"url": source.get("repository"), "startingRef": source.get("ref")}
        agent = self.cloud.launch(body, repo, body.get("target", {}).get("branchName", ""))
        return JSONResponse(self._show_v0(agent), 201)

    async def follow_up(self, request: Request) -> Any:
        agent = self._find(request)
        run = self.cloud.follow_up(agent, await request.json())
        return JSONResponse({"run": agent.describe_run(run)}, 201) if _is_v1(request) else {"id": agent.id}

    async def list_agents(self, request: Request) -> Any:
        there = [agent for agent in self.cloud.agents.values() if not agent.deleted]
        if _is_v1(request):
            return _take_page(request, "items", [agent.describe() for agent in there])
        return _take_page(request, "agents", [self._show_v0(agent) for agent in there])

    async def list_runs(self, request: Request) -> Any:
        agent = self._find(request)
        return _take_page(request, "items", [agent.describe_run(run) for run in agent.runs])

    async def get_agent(self, request: Request) -> Any:
        agent = self._find(request)
        return agent.describe() if _is_v1(request) else self._show_v0(agent)

    async def get_run(self, request: Request) -> Any:
        agent = self._find(request)
        return agent.describe_run(_find_run(agent, request))

    async def stream(self, request: Request) -> Any:
        run = _find_run(self._find(request), request)
        owner, _, number = request.headers.get("last-event-id", f"{run.id}-0").rpartition("-")
        if owner != run.id:
            raise Refusal("invalid_last_event_id")
        return StreamingResponse(run.stream(int(number)), media_type="text/event-stream")

    async def end(self, request: Request) -> Any:
        """Cancel a run, stop an agent or delete it."""
        agent = self._find(request)
        run = _find_run(agent, request) if "run" in request.path_params else agent.latest
        agent.deleted = request.method == "DELETE"
        if not (agent.deleted and run.ended):
            self.cloud.cancel(agent, run)
        return {"id": request.path_params.get("run", agent.id)}

    async def archive(self, request: Request) -> Any:
        agent = self._find(request)
        agent.archived = True
        return {"id": agent.id}

    async def show_conversation(self, request: Request) -> Any:
        agent = self._find(request)
        return {"id": agent.id, "messages": agent.messages}

    async def show_usage(self, request: Request) -> Any:
        runs = [r for r in self._find(request).runs if request.query_params.get("runId", r.id) == r.id]
        total = {name: sum(run.usage[name] for run in runs) for name in (*_USAGE, "totalTokens")}
        shown = [_drop_missing(id=run.id, usage=run.usage, cost=run.cost) for run in runs]
        return {"totalUsage": total, "runs": shown}

    async def show_me(self, _request: Request) -> Any:
        return {"apiKeyName": "A key", "createdAt": _show_time(0), "userEmail": "dev@example.com"}

    async def list_models(self, request: Request) -> Any:
        if _is_v1(request):
            return {"items": [{"id": id_, "displayName": name} for id_, name in _MODELS.items()]}
        return {"models": list(_MODELS)}

    async def play(self, request: Request) -> Any:
        sent = await request.json()
        (self.cloud.put_first if request.url.path.endswith("/on") else self.cloud.play)(sent)
        return {}

    async def release(self, request: Request) -> Any:
        for agent in self.cloud.agents.values():
            if request.path_params.get("agent", agent.id) == agent.id:
                agent.latest.released.set()
        return {}

    async def show_state(self, _request: Request) -> Any:
        agents = self.cloud.agents.values()
        return {"agents": len(agents), "active": sum(not agent.latest.ended for agent in agents)}

    def _find(self, request: Request) -> Agent:
        """Find an agent; whoever wants more of v0 than to look at it meets a conflict."""
        agent = self.cloud.agents.get(request.path_params["agent"])
        looks = request.method == "GET" and not request.url.path.endswith("/conversation")
        if agent is not None and not _is_v1(request) and not looks and (agent.deleted or agent.archived):
            raise Refusal("agent_deleted" if agent.deleted else "agent_archived")
        if agent is None or agent.deleted:
            raise Refusal("agent_not_found")
        return agent

    def _show_v0(self, agent: Agent) -> Json:
        return agent.describe_v0(self.cloud.script.get("stopped_status", "FINISHED"))


_V1, _V0 = "/v1/agents/{agent}", "/v0/agents/{agent}"
_ROUTES: Mapping[str, Handler] = {
    **dict.fromkeys(("POST /v1/agents", "POST /v0/agents"), Api.create),
    **dict.fromkeys(("GET /v1/agents", "GET /v0/agents"), Api.list_agents),
    **dict.fromkeys((f"GET {_V1}", f"GET {_V0}"), Api.get_agent),
    **dict.fromkeys((f"POST {_V1}/runs", f"POST {_V0}/followup"), Api.follow_up),
    **dict.fromkeys((f"POST {_V1}/runs/{{run}}/cancel", f"POST {_V0}/stop"), Api.end),
    **dict.fromkeys((f"DELETE {_V1}", f"DELETE {_V0}"), Api.end),
    f"POST {_V1}/archive": Api.archive,
    f"GET {_V1}/usage": Api.show_usage,
    f"GET {_V1}/runs": Api.list_runs,
    f"GET {_V1}/runs/{{run}}": Api.get_run,
    f"GET {_V1}/runs/{{run}}/stream": Api.stream,
    f"GET {_V0}/conversation": Api.show_conversation,
    **dict.fromkeys(("GET /v1/me", "GET /v0/me"), Api.show_me),
    **dict.fromkeys(("GET /v1/models", "GET /v0/models"), Api.list_models),
    **dict.fromkeys(("POST /_sim/script", "POST /_sim/on"), Api.play),
    **dict.fromkeys(("POST /_sim/release", "POST /_sim/agents/{agent}/release"), Api.release),
    "GET /_sim/state": Api.show_state,
}


def make_app(script: Mapping[str, Any] | None = None, repos: Mapping[str, Path] | None = None) -> Gate:
    """Make the app; `repos` maps addresses (https://github.com/me/app) to bare repositories."""
    script = script or {}
    api = Api(Cloud({**script, "repos": {**script.get("repos", {}), **(repos or {})}}))

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await api.cloud.close()

    routes = []
    for place, handler in _ROUTES.items():
        method, _, path = place.partition(" ")
        routes.append(Route(path, partial(api.answer, handler), methods=[method]))
    return Gate(Starlette(routes=routes, lifespan=lifespan), script.get("faults", ()))


if __name__ == "__main__":
    main(make_app, "Cursor's Cloud Agents API, v0 and v1.")
