"""The scripted agent: deterministic, without keys or network, yet a real process that edits real files.

Without a script it writes one small note per task. A script is a TOML file of `[[on]]` entries; the first one
whose selectors match the launch is played:

    [[on]]
    task = "2"                              # selectors: task, phase, attempt; a missing one matches all
    attempt = 1
    write = { "src/hello.py" = "print()" }  # actions: see `ScriptedEntry`, and docs/scripted-agent.md
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
from segue.agents.local.launch import make_command, run_program
from segue.agents.scripted.lines import ScriptedLines
from segue.domain.errors import UsageError
from segue.domain.event import Event
from segue.domain.job import Job
from segue.domain.options import OptionError, Options, read_options
from segue.ports import Capabilities, Installation, Problem
from segue.system.process.processes import Processes
from segue.system.program import part_command
from segue.system.redact import Redactor

NonNegative = Annotated[int, Meta(ge=0)]


class UsageEntry(Options, frozen=True):
    """What the agent says it used; what is missing is estimated from the length of the prompt."""

    input_tokens: NonNegative = 0
    output_tokens: NonNegative = 0
    cost_usd: Annotated[float, Meta(ge=0)] = 0.0


class VerdictEntry(Options, frozen=True):
    """What the agent answers in the phase `verify`; criteria that are not named are met."""

    unmet: Annotated[
        list[str] | Literal["all"], Meta(description="The keys of criteria that are not met.")
    ] = []
    evidence: Annotated[str, Meta(description="What to say about them.")] = "nothing shows it"
    action: Annotated[
        str | None, Meta(description="What should follow; RETRY if a criterion is not met.")
    ] = None
    request: Annotated[str, Meta(description="What the action needs.")] = ""
    caveats: Annotated[list[str], Meta(description="What the later steps must know.")] = []


class ScriptedEntry(Options, frozen=True):
    """One `[[on]]` table: three selectors, then the actions in the order in which they are done."""

    task: str | int | None = None
    phase: str | None = None
    attempt: Annotated[int, Meta(ge=1)] | None = None
    stderr: Annotated[str | None, Meta(description="Print this on stderr.")] = None
    say: Annotated[str | None, Meta(description="Say this, and give it as the result.")] = None
    output_bytes: Annotated[int, Meta(ge=0, description="Print so many bytes of noise.")] = 0
    delay: Annotated[float, Meta(ge=0, description="Wait so many seconds.")] = 0
    write: Annotated[dict[str, str], Meta(description="Write files: path = content.")] = {}
    append: Annotated[dict[str, str], Meta(description="Append to files: path = content.")] = {}
    delete: Annotated[list[str], Meta(description="Delete files.")] = []
    commit: Annotated[str | None, Meta(description="Commit everything with this message.")] = None
    orphan: Annotated[bool, Meta(description="Leave a background process behind.")] = False
    usage: Annotated[UsageEntry | None, Meta(description="Report this usage.")] = None
    limit: Annotated[str | None, Meta(description="Print this line and give up without a result.")] = None
    hang: Annotated[bool, Meta(description="Never end.")] = False
    truncate: Annotated[bool, Meta(description="Stop in the middle of the result line.")] = False
    no_result: Annotated[bool, Meta(description="End without a result line.")] = False
    plan: Annotated[str | None, Meta(description="The result in plan mode.")] = None
    verdict: Annotated[VerdictEntry | None, Meta(description="What to answer as a judge.")] = None
    exit_code: Annotated[int, Meta(ge=0, le=255, description="End with this exit code.")] = 0

    def __post_init__(self) -> None:
        for key, paths in (("write", self.write), ("append", self.append), ("delete", self.delete)):
            for path in paths:
                if not path or PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
                    raise OptionError(key, f"{path!r} is not a path inside the workspace")


class AgentScript(Options, frozen=True):
    """A whole script."""

    on: list[ScriptedEntry] = []


class ScriptedOptions(Options, frozen=True):
    """The table `[agents.scripted]`."""

    script: Annotated[Path | None, Meta(description="A TOML file that says what the agent does.")] = None


class ScriptedAgent:
    """Plays a script in a process of its own."""

    Options = ScriptedOptions
    name = "scripted"
    can = Capabilities(plan_mode=True, ask_mode=True, streams=True, reports_usage=True, reports_cost=True)

    def __init__(self, options: ScriptedOptions, processes: Processes, redactor: Redactor) -> None:
        self._script = options.script.absolute() if options.script else None
        self._processes = processes
        self._redactor = redactor
        if self._script:
            load_script(self._script)

    def check(self) -> list[Problem]:
        """Return nothing: the agent is part of the package, so nothing can be missing."""
        return []

    def installation(self) -> Installation:
        """Return the Python that plays the script, and the version of the package."""
        return Installation(sys.executable, __version__)

    def run(self, job: Job) -> AsyncGenerator[Event, None]:
        """Play the script and report what the process prints."""
        argv = [*part_command("--segue-scripted", "segue.agents.scripted.child"), job.mode.value]
        argv += [str(self._script)] if self._script else []
        return run_program(self._processes, self._redactor, job, make_command(job, argv), ScriptedLines())

    def forget(self, token: str) -> None:
        """Drop what was kept for an adoption."""
        self._processes.forget(token)


def load_script(path: Path) -> AgentScript:
    """Read and check a script; raises UsageError that names the file and the key."""
    try:
        return read_options(AgentScript, tomllib.loads(path.read_text(encoding="utf-8")))
    except OptionError as error:
        # People count entries from one.
        place = re.sub(r"\[(\d+)\]", lambda found: f"[{int(found[1]) + 1}]", error.path)
        hint = "docs/scripted-agent.md lists every key."
        raise UsageError(f"{path}: {place}: {error.message}", hint=hint) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} is not a readable TOML file: {error}") from None
