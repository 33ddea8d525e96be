"""Try out how the installed versions of agents behave, against a model on loopback, and remember it.

Versions differ in what nobody documents: whether a continued session reports its own usage or the total,
whether commands run in the sandbox, what the tools are called. One short conversation shows it, without an
account.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from segue.agents.claude.agent import ClaudeAgent, ClaudeOptions
from segue.agents.codex.agent import CodexAgent, CodexOptions
from segue.domain.errors import SegueError
from segue.domain.events import AgentUsage, Event
from segue.domain.job import Job, Limits, Mode
from segue.domain.options import read_options
from segue.domain.outcome import Outcome
from segue.flow.watched import run_agent
from segue.ports import Agent
from segue.prompts.task import try_prompt
from segue.runtime.app import App
from segue.system.files import write_atomic
from segue.system.process.processes import Processes
from segue.system.programs import reach
from segue.system.services import Services

_FILE = "behaviour.json"
_SAID = "segue-probe"
_COMMAND = f"printf %s-%s {_SAID} $((40 + 2))"
_SHOWN = f"{_SAID}-42"
_LIMITS = Limits(wall=45.0, idle=45.0)
_KEY, _MOST_TOOLS = "segue-probe-key", 40


class Behaviour(Struct, frozen=True):
    """How one version of an agent behaves, as it was seen here."""

    stamp: tuple[str, int, int]
    """The program, its size and when it was changed: another version is tried again."""
    usage: Literal["per launch", "total of the session"] | None = None
    """What a continued session reports; None: that could not be seen."""
    commands: bool = False
    """True if a command of the agent ran, in the sandbox that a run would have."""
    tools: tuple[str, ...] = ()
    """The tools that it offers to its model."""
    problem: str = ""
    """Why it could not be tried."""

    @property
    def summary(self) -> str:
        """What was seen, on one line."""
        if self.problem:
            return f"could not be tried: {self.problem}"
        said = "run" if self.commands else "DO NOT RUN"
        usage = f"usage is {self.usage}; " if self.usage else ""
        return f"{usage}commands {said} in its sandbox; tools: {', '.join(self.tools) or 'none seen'}"


def known_behaviour(app: App, name: str, program: str | None) -> Behaviour | None:
    """Return what was seen of this very program before; starts nothing."""
    found = _load(app.state_dir).get(name)
    return found if found is not None and program and found.stamp == _stamp(program) else None


async def see_behaviour(app: App, name: str, program: str | None) -> Behaviour | None:
    """Return how an agent behaves, tried out once per version; None for agents that are not tried."""
    if name not in _PROBES or not program or reach().has(program):
        return None
    known = known_behaviour(app, name, program)
    if known is not None:
        return known
    try:
        found = await _try(app, name, program)
    except (SegueError, OSError) as error:
        found = Behaviour(_stamp(program), problem=str(error).splitlines()[0][:200])
    kept = {**_load(app.state_dir), name: found}
    app.state_dir.mkdir(parents=True, exist_ok=True)
    write_atomic(app.state_dir / _FILE, msgspec.json.encode(kept))
    return found


async def _try(app: App, name: str, program: str) -> Behaviour:
    """Have a conversation of two turns with the agent, in an empty folder, and watch its model."""
    from segue.sim.llm.app import llm_app
    from segue.sim.llm.script import LlmEntry, LlmScript, LlmToolCall
    from segue.sim.services import ScriptPlayer
    from segue.system.http.server import start_server

    used = {"input": 1000, "output": 10}
    tool, given = _TOOLS[name]
    call = LlmToolCall(tool, {given: _COMMAND})
    script = LlmScript(
        on=[LlmEntry(times=1, tool_calls=[call], usage=used), LlmEntry(reply="Done.", usage=used)]
    )
    player = ScriptPlayer(LlmScript, script)
    url, stop = start_server(llm_app(player=player))
    try:
        # Not in the system's temporary folder, where Codex refuses its helpers.
        with tempfile.TemporaryDirectory(prefix="probe-", dir=_private(app.state_dir)) as scratch:
            async with Processes(Path(scratch) / "run") as processes:
                workspace = Path(scratch) / "work"
                workspace.mkdir()
                agent = _PROBES[name](app, app.services(processes, workspace), url)
                first = await _turn(agent, workspace, None)
                again = await _turn(agent, workspace, first[0].session) if first[0].session else None
    finally:
        stop()
    asked = [request.body for request in player.log.requests if isinstance(request.body, Mapping)]
    if not asked:
        why = first[0].failure.message if first[0].failure else "it did not ask its model anything"
        return Behaviour(_stamp(program), problem=why.splitlines()[0][:200])
    return Behaviour(
        _stamp(program),
        usage=_compare(first[1], again[1]) if again else None,
        commands=any(_SHOWN in str(body) for body in asked),
        tools=tuple(dict.fromkeys(name for body in asked for name in _tool_names(body)))[:_MOST_TOOLS],
    )


async def _turn(agent: Agent, workspace: Path, session: str | None) -> tuple[Outcome, int]:
    """Return how a turn ended, and the input tokens that the agent itself reported."""
    reported = 0

    async def hear(event: Event) -> None:
        nonlocal reported
        if isinstance(event, AgentUsage):
            reported = sum(
                filter(None, (event.input_tokens, event.cache_read_tokens, event.cache_write_tokens))
            )

    prompt = try_prompt(f"Run this command: {_COMMAND}")
    job = Job(uuid.uuid4().hex, prompt, workspace, Mode.EDIT, session=session, limits=_LIMITS)
    return await run_agent(agent, job, hear), reported


def _compare(first: int, again: int) -> Literal["per launch", "total of the session"] | None:
    if not first or not again:
        return None
    return "total of the session" if again > first else "per launch"


def _tool_names(data: Any) -> Iterator[str]:
    """Yield the names of the tools in a request, wherever the vendor puts them."""
    if not isinstance(data, Mapping):
        return
    for item in data.get("tools") or ():
        if isinstance(item, Mapping) and item.get("type") == "namespace":
            yield from _tool_names(item)
        elif isinstance(item, Mapping) and isinstance(item.get("name"), str):
            yield item["name"]
    given = data.get("input")
    for item in given if isinstance(given, list) else ():
        if isinstance(item, Mapping) and item.get("type") == "additional_tools":
            yield from _tool_names(item)


def _make_claude(app: App, services: Services, url: str) -> Agent:
    options = read_options(ClaudeOptions, app.loaded.settings.agents.get("claude", {}))
    plain = replace(options, pass_env=[], own_config_dir=True, max_retries=0)
    return ClaudeAgent(plain, services, {"ANTHROPIC_API_KEY": _KEY, "ANTHROPIC_BASE_URL": url})


def _make_codex(app: App, services: Services, url: str) -> Agent:
    options = read_options(CodexOptions, app.loaded.settings.agents.get("codex", {}))
    table = f'name="probe",base_url="{url}/v1",env_key="SEGUE_PROBE_KEY",wire_api="responses"'
    config = ['model_provider="probe"', f"model_providers.probe={{{table},request_max_retries=0}}"]
    plain = replace(options, pass_env=[], own_config_dir=True, config=config)
    return CodexAgent(plain, services, {"SEGUE_PROBE_KEY": _KEY})


_PROBES = {"claude": _make_claude, "codex": _make_codex}
_TOOLS = {"claude": ("Bash", "command"), "codex": ("exec_command", "cmd")}


def _private(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _stamp(program: str) -> tuple[str, int, int]:
    try:
        facts = Path(program).resolve().stat()
    except OSError:
        return program, 0, 0
    return program, facts.st_size, facts.st_mtime_ns


def _load(folder: Path) -> dict[str, Behaviour]:
    try:
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=dict[str, Behaviour])
    except (OSError, msgspec.MsgspecError):
        return {}
