"""Every variant of every socket: those that come with Segue, and those that other packages register."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from segue.domain.errors import ToolMissing, UsageError
from segue.domain.installed import import_name, other_variants, refuse_missing, socket_variants
from segue.domain.text import suggest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

CORE: Mapping[str, Mapping[str, str]] = {
    "agents": {
        "claude": "segue.agents.claude.agent:ClaudeAgent",
        "codex": "segue.agents.codex.agent:CodexAgent",
        "command": "segue.agents.command:CommandAgent",
        "copilot": "segue.agents.acp.agent:COPILOT",
        "cursor": "segue.agents.cursor.agent:CursorAgent",
        "cursor-acp": "segue.agents.acp.agent:CURSOR",
        "cursor-cloud": "segue.agents.cursor_cloud.agent:CursorCloudAgent",
        "gemini": "segue.agents.acp.agent:GEMINI",
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
    },
    "reviewers": {
        "command": "segue.reviewers.command:CommandReviewer",
        "ruff": "segue.reviewers.command:RUFF",
        "semgrep": "segue.reviewers.command:SEMGREP",
    },
    "judges": {
        "llm": "segue.judges.llm:LlmJudge",
        "checks": "segue.judges.checks:ChecksJudge",
    },
    "searchers": {},
    "notifiers": {},
    "deliveries": {
        "branch": "segue.deliveries.local:BranchDelivery",
        "merge": "segue.deliveries.local:MergeDelivery",
        "pr": "segue.deliveries.pull_request:PullRequestDelivery",
    },
}
"""Socket → name → where the class is. Other packages use the entry-point group `segue.SOCKET`."""

BUILT_IN: Mapping[str, Mapping[str, str]] = {
    socket: {**variants, **socket_variants(socket)} for socket, variants in CORE.items()
}
"""The same with what the parts of Segue bring that are installed."""

_MODELS = {
    "codex": ("gpt", "o1", "o3", "o4", "openai"),
    "claude": ("opus", "sonnet", "haiku", "anthropic"),
    "gemini": ("google",),
}
"""Agent → how the names of its models begin; the last one is who makes them."""


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
def _registered(socket: str) -> Sequence[EntryPoint]:
    from importlib.metadata import entry_points  # slow: only when somebody asks for what is not built in

    return tuple(entry_points(group=f"segue.{socket}"))


@cache
def _entry_points(socket: str) -> Mapping[str, EntryPoint]:
    """Return the plug-ins by name; of two packages that register the same name, the first one counts."""
    found = {point.name: point for point in reversed(_registered(socket))}
    return {name: point for name, point in found.items() if name not in BUILT_IN[socket]}


def names(socket: str) -> list[str]:
    """Return every name that is registered for a socket."""
    return sorted({*BUILT_IN[socket], *plugin_names(socket)})


def plugin_names(socket: str) -> list[str]:
    """Return the names that other packages have registered for a socket."""
    return sorted({*_entry_points(socket), *other_variants(socket)})


def load(socket: str, name: str, also: Iterable[str] = ()) -> Any:
    """Import a variant; `also` are names that mean something else, worth a hint."""
    if (where := BUILT_IN[socket].get(name)) is not None:
        return import_name(where)
    point = _entry_points(socket).get(name)
    if point is None and (where := other_variants(socket).get(name)) is not None:
        return import_name(where)
    if point is None:
        raise _unknown(socket, name, also)
    try:
        found = point.load()
    except Exception as error:  # another package's code may raise anything
        raise _unusable(point, f"cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise _unusable(point, f"cannot be used: {point.value} is not a class")
    is_factory = not isinstance(found, type) and socket != "sources"
    return found if is_factory else check_members(socket, name, found)


def says(socket: str, name: str, what: str) -> bool:
    """Return what the class of a variant says about itself; False if it says nothing."""
    return bool(getattr(load(socket, name), what, False))


def check_members(socket: str, name: str, found: T) -> T:
    """Return a variant, its class or an object; raises ToolMissing for a plug-in that lacks a member."""
    point = None if name in BUILT_IN[socket] else _entry_points(socket).get(name)
    if point is None:
        return found
    from segue import ports

    protocol = getattr(ports, _singular(socket).capitalize())
    needed = sorted(protocol.__abstractmethods__)
    if isinstance(found, type):  # only its objects need the properties
        needed = [one for one in needed if not isinstance(getattr(protocol, one), property)]
    elif socket == "sources":
        needed += ["kind", "key"]
    lacking = [one for one in needed if _lacks(found, one)]
    if lacking:
        raise _unusable(point, f"cannot be used: {point.value} has no {', '.join(lacking)}")
    return found


def _lacks(found: Any, member: str) -> bool:
    return getattr(getattr(found, member, None), "__isabstractmethod__", not hasattr(found, member))


def _unusable(point: EntryPoint, problem: str) -> ToolMissing:
    return ToolMissing(
        f"The plug-in {point.name!r} of {_package(point)} {problem}",
        hint="Update or remove that package; `segue plugins` lists what is installed",
    )


def check_name(socket: str, name: str, also: Iterable[str] = ()) -> None:
    """Raise UsageError for a name that nobody has registered; `also` are names that mean something else."""
    if name not in BUILT_IN[socket] and name not in also and name not in plugin_names(socket):
        raise _unknown(socket, name, also)


def _unknown(socket: str, name: str, also: Iterable[str]) -> UsageError:
    refuse_missing(socket, name, f"The {_singular(socket)} {name}")
    known = sorted({*names(socket), *also})
    return UsageError(
        f"There is no {_singular(socket)} {name!r}.{_describe_meant(socket, name, known)}",
        hint=f"Known {socket}: {', '.join(known)}",
    )


def _describe_meant(socket: str, name: str, known: Sequence[str]) -> str:
    """Suggest what is meant: `claude-code` and `Claude Code` are claude, `gpt-5` is a model of codex."""
    agent, slash, model = name.partition("/")
    if slash and agent in known:
        return f" A model follows a colon: {agent}:{model}"
    made = next((one for one, models in _MODELS.items() if name.casefold() == models[-1]), None)
    if made in known:
        return f" Did you mean {made!r}?"
    words = name.casefold().replace("_", "-").replace(" ", "-").split("-")
    if inside := next((one for one in known if one in words), None):
        return f" Did you mean {inside!r}?"
    maker = next((one for one, models in _MODELS.items() if words[0] in models), None)
    if maker is not None and socket == "judges":
        return f" Is it a model? Then: SEGUE_JUDGE__MODEL={name} segue run … --judge llm"
    return f" Is it a model? Then: --agent {maker}:{name}" if maker in known else suggest(name, known)


def _singular(socket: str) -> str:
    return "delivery" if socket == "deliveries" else socket.removesuffix("s")


def list_installed() -> list[Plugin]:
    """Return every variant of every socket; those of other packages are tried out."""
    from segue import __version__

    own = [
        Plugin(socket, name, where, "segue", __version__)
        for socket, variants in BUILT_IN.items()
        for name, where in variants.items()
    ]
    return own + [_examine(socket, point) for socket in BUILT_IN for point in _registered(socket)]


def _examine(socket: str, point: EntryPoint) -> Plugin:
    version = point.dist.version if point.dist else ""
    problem = ""
    if _entry_points(socket).get(point.name) is not point:
        other = "Segue" if point.name in BUILT_IN[socket] else _package(_entry_points(socket)[point.name])
        problem = (
            f"The plug-in {point.name!r} of {_package(point)} is not used: {other} has that name already"
        )
    else:
        try:
            load(socket, point.name)
        except ToolMissing as error:
            problem = error.message
    return Plugin(socket, point.name, point.value, _package(point), version, problem)


def find_culprit(error: BaseException) -> str:
    """Return the package whose plug-in took part when an error was raised; empty if none did."""
    modules = set()
    trace = error.__traceback__
    while trace is not None:
        modules.add(str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0])
        trace = trace.tb_next
    for socket in BUILT_IN if modules - {"segue", "click", "asyncio"} else ():
        for point in _registered(socket):
            if point.module.partition(".")[0] in modules:
                return _package(point)
    return ""


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "an unknown package"
