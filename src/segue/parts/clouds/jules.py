"""The jules agent: sessions of Google Jules' API v1alpha. See `segue help clouds`.

Jules names its branch itself and shows it with its pull request. A session can neither be stopped nor priced.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from urllib.parse import quote

from msgspec.structs import replace

from segue.agents.cloud.agent import CloudKind
from segue.agents.cloud.calls import ask, compute_age, parse_time, read_body, read_name, send
from segue.agents.cloud.errors import CloudError, CloudService, judge_reason
from segue.agents.cloud.launch import CloudProfile
from segue.agents.cloud.options import CloudOptions
from segue.agents.cloud.transcript import Transcript
from segue.agents.cloud.vendor import CloudLook, CloudOrder, CloudVendor, split_address
from segue.agents.local.values import Json, as_list, as_table, as_text
from segue.domain.outcome import Failure, FailureKind
from segue.ports import Capabilities
from segue.prompts.cloud import make_mark
from segue.system.http.client import HttpClient

_PAGES = 50
_PAGE = "100"
_SERVICE = CloudService("Jules' API", "Jules", "JULES_API_KEY and what your plan allows", "API v1alpha")
_WORKING = frozenset({"STATE_UNSPECIFIED", "QUEUED", "PLANNING", "IN_PROGRESS", "PAUSED"})
_WAITS = frozenset({"AWAITING_PLAN_APPROVAL", "AWAITING_USER_FEEDBACK"})
_STATES = _WORKING | _WAITS | {"COMPLETED", "FAILED"}
_NO_SOURCE = "could not get source"
_SOURCE_PAUSES = (2.0, 5.0, 10.0)
"""How many pauses to wait before a launch is repeated that failed for this reason, as many at once do."""


class JulesOptions(CloudOptions, frozen=True):
    """The table `[agents.jules]`."""

    base_url: str = "https://jules.googleapis.com/v1alpha"
    """The address of the API."""


class JulesCloud(CloudVendor):
    """Jules' API."""

    def __init__(self, http: HttpClient, options: JulesOptions) -> None:
        self._http, self._options = http, options
        self._pages: dict[str, str] = {}

    async def create(self, order: CloudOrder, deadline: float) -> str:
        """Launch a session; the key is in its title and in its prompt."""
        source, branch = await self._find_source(order, deadline)
        body = {
            "prompt": order.prompt,
            "title": order.title,
            "sourceContext": {"source": source, "githubRepoContext": {"startingBranch": branch}},
            "requirePlanApproval": False,
            "automationMode": "AUTO_CREATE_PR",
        }
        for pause in (*_SOURCE_PAUSES, None):
            try:
                answer = await send(self._http, "POST", "/sessions", deadline, body=body)
                break
            except CloudError as error:
                if pause is None or error.unsure or _NO_SOURCE not in error.message.lower():
                    raise
                await asyncio.sleep(pause * self._options.retry_pause)
        found = read_body(answer)
        name = read_name(answer, found, "id", "a session")
        self._pages[name] = as_text(found.get("url"))
        return name

    async def find(self, order: CloudOrder, since: float, deadline: float) -> str | None:
        """Return the session whose title or prompt has our key."""
        async for session in self._list("/sessions", "sessions", {}, deadline):
            created = parse_time(session.get("createTime"))
            if created is not None and created < since:
                continue
            if any(order.key in as_text(session.get(name)) for name in ("title", "prompt")):
                return as_text(session.get("id")) or None
        return None

    async def has_message(self, session: str, key: str, deadline: float) -> bool:
        """Return whether a message with our mark is there."""
        async for activity in self._list(f"{_path(session)}/activities", "activities", {}, deadline):
            if make_mark(key) in as_text(as_table(activity.get("userMessaged")).get("userMessage")):
                return True
        return False

    async def say(self, session: str, order: CloudOrder, deadline: float) -> None:
        """Send a message, which revives a session that has ended."""
        await send(
            self._http, "POST", f"{_path(session)}:sendMessage", deadline, body={"prompt": order.prompt}
        )

    async def look(self, session: str, order: CloudOrder, seen: Transcript, deadline: float) -> CloudLook:
        """Read the state and the activities since the last look."""
        seen.notes.setdefault("later", seen.muted)
        answer = await send(self._http, "GET", _path(session), deadline)
        found = read_body(answer)
        self._pages[session] = as_text(found.get("url"))
        path = f"{_path(session)}/activities"
        async for activity in self._list(path, "activities", seen.notes, deadline):
            _show(activity, order.key, seen)
        word = as_text(found.get("state"))
        outputs = [as_table(output) for output in as_list(found.get("outputs"))]
        pulls = [as_table(output.get("pullRequest")) for output in outputs if output.get("pullRequest")]
        look = CloudLook(
            word,
            known=word in _STATES,
            branches=tuple(filter(None, (as_text(pull.get("headRef")) for pull in pulls))),
            pulls=tuple(filter(None, (as_text(pull.get("url")) for pull in pulls))),
            age=compute_age(answer, found.get("createTime")),
        )
        return _judge(look, seen, has_patch=any(output.get("changeSet") for output in outputs))

    def page(self, session: str) -> str:
        """Return the page that the API has named."""
        return self._pages.get(session, "")

    async def _find_source(self, order: CloudOrder, deadline: float) -> tuple[str, str]:
        """Return Jules' name of the repository, whatever it looks like, and the branch to start from."""
        owner, name = (part.lower() for part in split_address(order.repository))
        async for source in self._list("/sources", "sources", {}, deadline):
            hosted = as_table(source.get("githubRepo"))
            known = (as_text(hosted.get("owner")).lower(), as_text(hosted.get("repo")).lower())
            if known == (owner, name):
                usual = as_text(as_table(hosted.get("defaultBranch")).get("displayName"))
                return as_text(source.get("name")), order.base or usual
        what = f"Jules does not know {order.repository}; connect it at https://jules.google"
        raise CloudError("source_unknown", what, status=400)

    async def _list(
        self, path: str, field: str, notes: dict[str, str], deadline: float
    ) -> AsyncGenerator[Json, None]:
        """Yield the items of all pages, from the one on that the notes name; the last page may grow."""
        for _ in range(_PAGES):
            token = notes.get("token", "")
            query = {"pageSize": _PAGE, **({"pageToken": token} if token else {})}
            found = await ask(self._http, "GET", path, deadline, query=query)
            for item in as_list(found.get(field)):
                yield as_table(item)
            following = as_text(found.get("nextPageToken"))
            if not following:
                return
            notes["token"] = following


def _show(activity: Json, key: str, seen: Transcript) -> None:
    sent = as_text(as_table(activity.get("userMessaged")).get("userMessage"))
    if make_mark(key) in sent:
        seen.muted = False
    if sent or not seen.is_new(as_text(activity.get("name")) or as_text(activity.get("id"))) or seen.muted:
        return
    seen.notes["answered"] = True
    known = [name for name in _KINDS if name in activity]
    match known[0] if known else "":
        case "agentMessaged":
            seen.say(as_text(as_table(activity["agentMessaged"]).get("agentMessage")))
        case "sessionFailed":
            seen.notes["reason"] = as_text(as_table(activity["sessionFailed"]).get("reason"))
        case "":
            seen.add_unknown("activity", dict(activity))
        case kind:
            seen.add(kind, activity[kind])
    for number, artifact in enumerate(as_list(activity.get("artifacts"))):
        if ran := as_table(as_table(artifact).get("bashOutput")):
            status = "error" if ran.get("exitCode") else "success"
            name = f"{as_text(activity.get('id'))}-{number}"
            seen.end_tool(name, status, ran.get("output"), "Bash", {"command": ran.get("command")})


_KINDS = (
    "agentMessaged",
    "planGenerated",
    "planApproved",
    "progressUpdated",
    "sessionCompleted",
    "sessionFailed",
)


def _judge(look: CloudLook, seen: Transcript, has_patch: bool) -> CloudLook:
    """Return what the state means; after a follow-up it may still be that of the turn before."""
    if seen.notes["later"] and not seen.notes.get("answered"):
        return look
    failure: Failure | None = None
    if look.word == "FAILED":
        failure = judge_reason(seen.notes.get("reason", ""), _SERVICE)
    elif look.word in _WAITS:
        failure = Failure(
            FailureKind.NO_RESULT, f"Jules waits for a person ({look.word}), and nobody answers"
        )
    elif look.word == "COMPLETED" and has_patch and not look.branches and not look.pulls:
        failure = Failure(
            FailureKind.BRANCH, "Jules has made a patch, but opened no pull request with a branch"
        )
    elif look.word != "COMPLETED":
        return look
    return replace(look, ended=True, failure=failure)


def _path(session: str) -> str:
    return f"/sessions/{quote(session, safe='')}"


JULES = CloudKind(
    CloudProfile(
        name="jules",
        service=_SERVICE,
        keys=("JULES_API_KEY",),
        can=Capabilities(follow_up=True, cloud=True, marks_prompt=True, unstoppable=True),
        headers=lambda key: {"X-Goog-Api-Key": key},
        connect=JulesCloud,
        where="https://jules.google/settings",
        options=JulesOptions,
    )
)
