"""The scripted agent: deterministic, without keys or network, yet a real process that edits real files.

Without a script it writes one small note per task. A script is a TOML file of `[[on]]` entries; the first one
whose selectors match the launch is played:

    [[on]]
    task = "2"                              # selectors: task, phase, attempt; a missing one matches all
    attempt = 1
    write = { "src/hello.py" = "print()" }  # actions: see `ScriptedEntry`, docs/reference/scripted-agent.md
    exit_code = 1

In plan and ask mode nothing is edited.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import AsyncGenerator
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from msgspec import Meta

from segue import __version__
from segue.agents.local.failures import FailureTable
from segue.agents.local.launch import ProcessEnd, count_usage, make_command, run_program
from segue.agents.local.lines import LineReader
from segue.agents.local.speech import Hear
from segue.agents.local.values import Json, as_count, as_money, as_table, as_text
from segue.domain.errors import UsageError
from segue.domain.events import AgentTool, AgentUsage, Event
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Job
from segue.domain.options import Commands, NonNegativeFloat, OptionError, Options, read_options
from segue.domain.outcome import Outcome, Usage
from segue.ports import Capabilities, Installation, Problem
from segue.system.program import part_command
from segue.system.reading import explain_unreadable
from segue.system.services import Services

FAILURES = FailureTable("the agent", login="")


class ScriptedLines:
    """Remembers what the outcome of a launch needs."""

    def __init__(self, hear: Hear | None = None) -> None:
        self._result: Json | None = None
        self._lines = LineReader(
            {
                "text": lambda line: self._lines.say(as_text(line.get("text"))),
                "tool": lambda line: [
                    AgentTool(as_text(line.get("name")), dict(as_table(line.get("input"))))
                ],
                "usage": self._read_usage,
                "result": self._read_result,
            },
            hear=hear,
        )
        self.read = self._lines.read

    def _read_usage(self, line: Json) -> list[Event]:
        tokens = as_count(line.get("input_tokens")), as_count(line.get("output_tokens"))
        used = AgentUsage(*tokens, as_money(line.get("cost_usd")))
        self._lines.usage = (self._lines.usage or Usage()) + count_usage(used)
        return [used]

    def _read_result(self, line: Json) -> list[Event]:
        self._result = line
        return []

    def outcome(self, end: ProcessEnd, now: float) -> Outcome:
        """Return how the launch ended, judging by everything that was read."""
        said = as_text((self._result or {}).get("text"))
        return self._lines.outcome(end, said, self._failure(end, now, said), {})

    def _failure(self, end: ProcessEnd, now: float, said: str) -> Failure | None:
        if self._result is None:
            return FAILURES.judge_end(end, self._lines, now)
        if self._result.get("ok"):
            return end.failure(now, self._lines.plain_text)
        known = end.failure(now, self._lines.plain_text)
        return known or Failure(FailureKind.UNKNOWN, said or "the agent reports a failure")


NonNegative = Annotated[int, Meta(ge=0)]


class UsageEntry(Options, frozen=True):
    """What the agent says it used; what is missing is estimated from the length of the prompt."""

    input_tokens: NonNegative = 0
    output_tokens: NonNegative = 0
    cost_usd: Annotated[float, Meta(ge=0)] = 0.0


class VerdictEntry(Options, frozen=True):
    """What the agent answers in the phase `verify`; criteria that are not named are met."""

    unmet: list[str] | Literal["all"] = []
    """The keys of criteria that are not met."""
    evidence: str = "nothing shows it"
    """What to say about them."""
    action: str | None = None
    """What should follow; RETRY if a criterion is not met."""
    request: str = ""
    """What the action needs."""
    caveats: list[str] = []
    """What the later steps must know."""


class ScriptedEntry(Options, frozen=True):
    """One `[[on]]` table: three selectors, then the actions in the order in which they are done."""

    task: str | int | None = None
    """Matches the task with this key."""
    phase: str | None = None
    """Matches this phase: `execute`, `plan`, …"""
    attempt: Annotated[int, Meta(ge=1)] | None = None
    """Matches the attempt with this number, from 1."""
    stderr: str | None = None
    """Print this on stderr."""
    say: str | None = None
    """Say this, and give it as the result."""
    output_bytes: NonNegative = 0
    """Print this many bytes of noise."""
    delay: NonNegativeFloat = 0
    """Wait this many seconds."""
    wait_for: str | None = None
    """Wait until this file exists."""
    write: dict[str, str] = {}
    """Write files: path = content."""
    append: dict[str, str] = {}
    """Append to files: path = content."""
    edit: dict[str, tuple[str, str]] = {}
    """Replace text in files: path = [old, new]; a file without it ends the agent."""
    delete: list[str] = []
    """Delete files."""
    run: Commands = Commands()
    """Run commands without a shell; one that fails ends the agent."""
    commit: str | None = None
    """Commit everything with this message, which agents should leave to Segue."""
    orphan: bool = False
    """Leave a background process behind."""
    usage: UsageEntry | None = None
    """Report `input_tokens`, `output_tokens` and `cost_usd`; missing ones are estimated."""
    limit: str | None = None
    """Print this line and give up without a result."""
    hang: bool = False
    """Never end."""
    truncate: bool = False
    """Stop in the middle of the result line."""
    no_result: bool = False
    """End without a result line."""
    plan: str | None = None
    """The result in plan mode."""
    verdict: VerdictEntry | None = None
    """Answer as a judge: `unmet` (keys of criteria, or "all"), `evidence`, `action`, `request`, `caveats`."""
    exit_code: Annotated[int, Meta(ge=0, le=255)] = 0
    """End with this exit code."""

    def __post_init__(self) -> None:
        for key in ("write", "append", "edit", "delete"):
            for path in getattr(self, key):
                if not path or PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
                    raise OptionError(key, f"{path!r} is not a path inside the workspace")


class AgentScript(Options, frozen=True):
    """A whole script."""

    on: list[ScriptedEntry] = []


class ScriptedOptions(Options, frozen=True):
    """The table `[agents.scripted]`."""

    script: Path | None = None
    """A TOML file that says what the agent does."""


class ScriptedAgent:
    """Plays a script in a process of its own."""

    Options = ScriptedOptions
    name = "scripted"
    can = Capabilities(plan_mode=True, ask_mode=True, streams=True, reports_usage=True, reports_cost=True)

    def __init__(self, options: ScriptedOptions, services: Services) -> None:
        self._script = options.script.absolute() if options.script else None
        self._services = services
        if self._script:
            load_script(self._script)

    def check(self) -> list[Problem]:
        """Return nothing: the agent is part of the package, so nothing can be missing."""
        return []

    def installation(self) -> Installation:
        """Return the Python that plays the script, and the version of the package."""
        return Installation(sys.executable, __version__)

    def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Play the script and report what the process prints."""
        argv = [*part_command("--segue-scripted", "segue.agents.scripted.child"), job.mode.value]
        argv += [str(self._script)] if self._script else []
        return run_program(self._services, job, make_command(job, argv), ScriptedLines(job.hear))

    def forget(self, token: str) -> None:
        """Drop what was kept for an adoption."""
        self._services.processes.forget(token)


def load_script(path: Path) -> AgentScript:
    """Read and check a script; raises UsageError that names the file and the key."""
    try:
        return read_options(AgentScript, tomllib.loads(path.read_text(encoding="utf-8")))
    except OptionError as error:
        # People count entries from one.
        place = re.sub(r"\[(\d+)\]", lambda found: f"[{int(found[1]) + 1}]", error.path)
        hint = "docs/reference/scripted-agent.md lists every key."
        raise UsageError(f"{path}: {place}: {error.message}", hint=hint) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        hint = "See docs/reference/scripted-agent.md"
        raise UsageError(f"The script {explain_unreadable(path, error)}", hint=hint) from None
