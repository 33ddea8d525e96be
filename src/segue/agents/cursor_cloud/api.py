"""What both versions of Cursor's API have in common: an order, a run, its statuses, and one way to ask."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from segue.agents.cursor_cloud.errors import (
    DELETED,
    CloudError,
    judge_reason,
    make_bad_answer,
    make_unreachable,
    read_refusal,
)
from segue.domain.outcome import Failure, FailureKind
from segue.system.git.address import same_repository
from segue.system.http.client import HttpClient, HttpError, HttpResponse, parse_date


class Status(StrEnum):
    """The state of a run. UNKNOWN is not the end: it is watched until its deadline."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    GONE = "gone"
    UNKNOWN = "unknown"

    @property
    def is_terminal(self) -> bool:
        """True if it will not change any more."""
        return self not in (Status.QUEUED, Status.RUNNING, Status.UNKNOWN)


_WORDS = {
    **dict.fromkeys(("CREATING", "PENDING", "QUEUED"), Status.QUEUED),
    "RUNNING": Status.RUNNING,
    "FINISHED": Status.SUCCEEDED,
    **dict.fromkeys(("ERROR", "FAILED"), Status.FAILED),
    **dict.fromkeys(("CANCELLED", "CANCELED", "STOPPED"), Status.CANCELLED),
    "EXPIRED": Status.EXPIRED,
    "DELETED": Status.GONE,
}
"""The words of both API versions, and some that it may use one day."""


def parse_status(word: object) -> Status:
    """Return the status that a word means."""
    return _WORDS.get(word.strip().upper(), Status.UNKNOWN) if isinstance(word, str) else Status.UNKNOWN


class RunRef(Struct, frozen=True):
    """One run of one agent; as text, `bc-…/run-…`, it is the session of an outcome."""

    agent: str
    run: str

    def __str__(self) -> str:
        return f"{self.agent}/{self.run}"

    @property
    def url(self) -> str:
        """The page for people."""
        return f"https://cursor.com/agents/{self.agent}"

    @classmethod
    def parse(cls, session: str) -> RunRef:
        """Read a session; without a run it names only the agent."""
        agent, _, run = session.partition("/")
        return cls(agent, run)


class CloudOrder(Struct, frozen=True):
    """One message for a cloud agent: its launch, or a follow-up."""

    token: str
    """The step's token, from which the agent's id in v1 and its branch in v0 are made."""
    prompt: str
    mark: str
    """The last line of the prompt in v0, by which a launch is found before it has a branch."""
    repository: str
    base: str = ""
    """The branch or commit to start from; empty: the default branch."""
    on_base: bool = False
    """Work on that branch instead of a new one."""
    model: str | None = None
    title: str = ""
    plan: bool = False
    """Change nothing."""
    auto_create_pr: bool = False

    @property
    def branch(self) -> str:
        """The branch that the agent is asked to push, where it can be asked."""
        return f"segue/{self.token[:12]}"

    @property
    def agent_id(self) -> str:
        """The id of the agent, where it can be chosen; it is always the same for a token."""
        try:
            name = uuid.UUID(hex=self.token)
        except ValueError:
            name = uuid.uuid5(uuid.NAMESPACE_URL, f"segue:{self.token}")
        return f"bc-{name}"


class Branch(Struct, frozen=True):
    """A branch that was pushed. Its name may be missing; the repository has no scheme."""

    repository: str
    name: str
    pr: str = ""


class Look(Struct, frozen=True):
    """What is known about a run at one moment."""

    status: Status
    word: str
    """Its status, as the API calls it."""
    text: str = ""
    """What the agent said last."""
    error: str = ""
    may_be_ours: bool = False
    """True if it ended in a way that a stop of ours explains."""
    pushed: Sequence[Branch] = ()
    age: float | None = None
    """Seconds since it was created, by the server's clock."""
    duration: float | None = None

    def branches(self, repository: str) -> tuple[str, ...]:
        """Return the names of its branches in a repository."""
        names = (one.name for one in self.pushed if same_repository(one.repository, repository))
        return tuple(dict.fromkeys(filter(None, names)))

    @property
    def failure(self) -> Failure | None:
        """Why a run that has ended failed; None if it succeeded."""
        match self.status:
            case Status.SUCCEEDED:
                return None
            case Status.EXPIRED:
                message = "Cursor let the run expire: that is its own time limit, not one of Segue's"
                return Failure(FailureKind.TIMEOUT, message)
            case Status.CANCELLED:
                return Failure(FailureKind.UNKNOWN, "the cloud agent was stopped by someone else")
            case Status.GONE:
                return DELETED
            case _:
                return judge_reason(self.error)


async def send(http: HttpClient, method: str, path: str, deadline: float, **more: Any) -> HttpResponse:
    """Send a request; raises CloudError unless it succeeds with a JSON object."""
    changes = method != "GET"
    try:
        answer = await http.request(method, path, deadline=deadline, **more)
    except HttpError as error:
        raise make_unreachable(error, changes) from None
    if not 200 <= answer.status < 300:
        raise read_refusal(answer, changes)
    try:
        body = answer.json()
    except ValueError:
        raise make_bad_answer(answer, "it is not JSON", changes) from None
    if not isinstance(body, Mapping):
        raise make_bad_answer(answer, "it is not an object", changes)
    return answer


def read_name(answer: HttpResponse, body: Mapping[str, Any], what: str) -> str:
    """Return the id of what was created; an answer without one does not say whether anything was."""
    name = body.get("id")
    if not isinstance(name, str) or not name:
        raise make_bad_answer(answer, f"no id of {what}")
    return name


def explain_conflict(error: CloudError) -> CloudError:
    """Return the error; in v0 a conflict without another reason means a deleted or archived agent."""
    if error.status == 409 and error.code != "agent_busy":
        return CloudError("agent_archived", error.message, status=409)
    return error


def compute_age(answer: HttpResponse, created: Any) -> float | None:
    """Return the seconds since something was created, by the server's clock; ours may be wrong."""
    now = parse_date(answer.headers.get("date", ""))
    try:
        then = datetime.fromisoformat(created)
    except (TypeError, ValueError):
        return None
    return max(0.0, now - then.timestamp()) if now is not None and then.tzinfo else None
