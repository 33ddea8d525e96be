"""Every variant of every socket: those that come with Segue, and those that other packages register."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.domain.errors import ToolMissing, UsageError
from segue.domain.nearest import suggest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BUILT_IN: Mapping[str, Mapping[str, str]] = {
    "agents": {
        "claude": "segue.agents.claude.agent:ClaudeAgent",
        "claude-cloud": "segue.agents.claude_cloud:CLAUDE_CLOUD",
        "codex": "segue.agents.codex.agent:CodexAgent",
        "command": "segue.agents.command:CommandAgent",
        "copilot": "segue.agents.acp.agent:COPILOT",
        "copilot-cloud": "segue.agents.copilot_cloud:COPILOT_CLOUD",
        "cursor": "segue.agents.cursor.agent:CursorAgent",
        "cursor-acp": "segue.agents.acp.agent:CURSOR",
        "cursor-cloud": "segue.agents.cursor_cloud.agent:CursorCloudAgent",
        "devin": "segue.agents.devin:DEVIN",
        "gemini": "segue.agents.acp.agent:GEMINI",
        "jules": "segue.agents.jules:JULES",
        "opencode": "segue.agents.acp.agent:OPENCODE",
        "qwen": "segue.agents.acp.agent:QWEN",
        "scripted": "segue.agents.scripted.agent:ScriptedAgent",
        "vibe": "segue.agents.acp.agent:VIBE",
    },
    "sources": {
        "prompt": "segue.sources.prompt:PromptSource",
        "speckit": "segue.sources.speckit.source:SpecKit",
        "planfile": "segue.sources.plan.source:PlanFile",
        "github": "segue.sources.github.source:GithubIssues",
        "table": "segue.sources.table:TableSource",
        "taskmaster": "segue.sources.taskmaster:TaskMasterSource",
        "beads": "segue.sources.beads:BeadsSource",
    },
    "reviewers": {
        "stet": "segue.reviewers.stet.reviewer:StetReviewer",
        "command": "segue.reviewers.command:CommandReviewer",
        "ruff": "segue.reviewers.command:RUFF",
        "semgrep": "segue.reviewers.command:SEMGREP",
    },
    "judges": {
        "llm": "segue.judges.llm:LlmJudge",
        "checks": "segue.judges.checks:ChecksJudge",
    },
    "searchers": {
        "brave": "segue.searchers.brave:BraveSearcher",
        "searxng": "segue.searchers.searxng:SearxngSearcher",
        "tavily": "segue.searchers.tavily:TavilySearcher",
    },
    "notifiers": {
        "terminal": "segue.notify.terminal:TerminalNotifier",
        "desktop": "segue.notify.desktop:DesktopNotifier",
        "webhook": "segue.notify.webhook:WebhookNotifier",
        "email": "segue.notify.mail:MailNotifier",
        "slack": "segue.notify.slack:SlackNotifier",
        "ntfy": "segue.notify.ntfy:NtfyNotifier",
    },
    "deliveries": {
        "branch": "segue.deliveries.local:BranchDelivery",
        "merge": "segue.deliveries.local:MergeDelivery",
        "pr": "segue.deliveries.pull_request:PullRequestDelivery",
    },
}
"""Socket → name → where the class is. Other packages use the entry-point group `segue.SOCKET`."""


class Plugin(Struct, frozen=True):
    """One variant of a socket, and where it comes from."""

    socket: str
    name: str
    where: str
    package: str
    version: str
    problem: str = ""
    """Why it cannot be loaded; empty when it can."""


@cache
def _entry_points(socket: str) -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points  # slow: only when somebody asks for what is not built in

    found = entry_points(group=f"segue.{socket}")
    return {point.name: point for point in found if point.name not in BUILT_IN[socket]}


def names(socket: str) -> list[str]:
    """Return every name that is registered for a socket."""
    return sorted({*BUILT_IN[socket], *_entry_points(socket)})


def plugin_names(socket: str) -> list[str]:
    """Return the names that other packages have registered for a socket."""
    return sorted(_entry_points(socket))


def load(socket: str, name: str, also: Iterable[str] = ()) -> Any:
    """Import a variant; `also` are names that somebody else answers for, worth a hint."""
    where = BUILT_IN[socket].get(name)
    if where is not None:
        module, _, attribute = where.partition(":")
        return getattr(importlib.import_module(module), attribute)
    check_name(socket, name, also)
    point = _entry_points(socket)[name]
    try:
        return point.load()
    except Exception as error:  # another package's code may raise anything
        raise ToolMissing(
            f"The plug-in {name!r} of {_package(point)} cannot be loaded: {type(error).__name__}: {error}",
            hint="Update or remove that package; `segue plugins` lists what is installed",
        ) from error


def check_name(socket: str, name: str, also: Iterable[str] = ()) -> None:
    """Raise UsageError for a name that nobody has registered; `also` are names worth a hint."""
    if name not in BUILT_IN[socket] and name not in _entry_points(socket):
        raise _unknown(socket, name, sorted({*names(socket), *also}))


def _unknown(socket: str, name: str, known: list[str]) -> UsageError:
    return UsageError(
        f"There is no {_singular(socket)} {name!r}.{suggest(name, known)}",
        hint=f"Known {socket}: {', '.join(known)}",
    )


def _singular(socket: str) -> str:
    return "delivery" if socket == "deliveries" else socket.removesuffix("s")


def installed() -> list[Plugin]:
    """Return every variant of every socket; those of other packages are tried out."""
    from segue import __version__

    own = [
        Plugin(socket, name, where, "segue", __version__)
        for socket, variants in BUILT_IN.items()
        for name, where in variants.items()
    ]
    others = [_examine(socket, point) for socket in BUILT_IN for point in _entry_points(socket).values()]
    return own + others


def _examine(socket: str, point: EntryPoint) -> Plugin:
    version = point.dist.version if point.dist else ""
    try:
        load(socket, point.name)
        problem = ""
    except ToolMissing as error:
        problem = error.message
    return Plugin(socket, point.name, point.value, _package(point), version, problem)


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "an unknown package"
