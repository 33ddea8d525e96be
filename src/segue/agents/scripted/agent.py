"""The scripted agent: deterministic, without keys or network, yet a real process that edits real files.

Without a script it writes one small note per task. A script is a TOML file of `[[on]]` entries; the
first one whose selectors fit the launch is played:

    [[on]]
    task = "2"                              # selectors: task, phase, attempt; a missing one fits all
    attempt = 1
    write = { "src/hello.py" = "print()" }  # actions: see `Entry`, and docs/scripted-agent.md
    exit_code = 1

In plan and ask mode nothing is edited.
"""

from __future__ import annotations

import sys
import time
import tomllib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from segue import __version__
from segue.agents.local import Ended, ended_event, environment, run_local
from segue.agents.scripted.lines import ScriptedLines
from segue.domain.errors import UsageError
from segue.domain.event import Event
from segue.domain.job import Job
from segue.ports import Capabilities, Installation, Problem
from segue.system.process.processes import Command, Processes
from segue.system.program import part_command
from segue.system.redact import Redactor


def _relative(path: str) -> str:
    if not path or PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError("must be a path inside the workspace")
    return path


RelativePath = Annotated[str, AfterValidator(_relative)]


class UsageEntry(BaseModel):
    """What the agent says it used; what is missing is guessed from the prompt's length."""

    model_config = ConfigDict(extra="forbid")

    input_tokens: int = Field(0, ge=0)
    output_tokens: int = Field(0, ge=0)
    cost_usd: float = Field(0.0, ge=0)


class VerdictEntry(BaseModel):
    """What the agent answers in the phase `verify`; criteria that are not named are met."""

    model_config = ConfigDict(extra="forbid")

    unmet: list[str] | Literal["all"] = Field([], description="The keys of criteria that are not met.")
    evidence: str = Field("nothing shows it", description="What to say about them.")
    action: str | None = Field(None, description="What should follow; RETRY if a criterion is not met.")
    request: str = Field("", description="What the action needs.")
    caveats: list[str] = Field([], description="What the later steps must know.")


class Entry(BaseModel):
    """One `[[on]]` table: three selectors, then the actions in the order in which they are done."""

    model_config = ConfigDict(extra="forbid")

    task: str | int | None = None
    phase: str | None = None
    attempt: int | None = Field(None, ge=1)
    stderr: str | None = Field(None, description="Print this on stderr.")
    say: str | None = Field(None, description="Say this, and give it as the result.")
    output_bytes: int = Field(0, ge=0, description="Print so many bytes of noise.")
    delay: float = Field(0, ge=0, description="Wait so many seconds.")
    write: dict[RelativePath, str] = Field(default={}, description="Write files: path = content.")
    append: dict[RelativePath, str] = Field(default={}, description="Append to files: path = content.")
    delete: list[RelativePath] = Field(default=[], description="Delete files.")
    commit: str | None = Field(None, description="Commit everything with this message.")
    orphan: bool = Field(False, description="Leave a background process behind.")
    usage: UsageEntry | None = Field(None, description="Report this usage.")
    limit: str | None = Field(None, description="Print this line and give up without a result.")
    hang: bool = Field(False, description="Never end.")
    truncate: bool = Field(False, description="Stop in the middle of the result line.")
    no_result: bool = Field(False, description="End without a result line.")
    plan: str | None = Field(None, description="The result in plan mode.")
    verdict: VerdictEntry | None = Field(None, description="What to answer as a judge.")
    exit_code: int = Field(0, ge=0, le=255, description="End with this exit code.")


class Script(BaseModel):
    """A whole script."""

    model_config = ConfigDict(extra="forbid")

    on: list[Entry] = []


class ScriptedOptions(BaseModel):
    """The table `[agents.scripted]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    script: Path | None = Field(None, description="A TOML file that says what the agent does.")


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
        """Nothing can be missing: the agent is part of the package."""
        return []

    def installation(self) -> Installation:
        """The Python that plays the script, and the version of the package."""
        return Installation(sys.executable, __version__)

    async def run(self, job: Job) -> AsyncGenerator[Event, None]:
        """Play the script and report what the process prints."""
        argv = (
            *part_command("--segue-scripted", "segue.agents.scripted.child"),
            job.mode.value,
            *([str(self._script)] if self._script else []),
        )
        stdin = job.prompt.text.encode("utf-8", "replace")
        command = Command(argv, job.workspace, environment(job), stdin, job.limits)
        lines = ScriptedLines()
        items = run_local(self._processes, self._redactor, job.token, command, lines.read)
        async with aclosing(items):
            async for item in items:
                if isinstance(item, Ended):
                    yield ended_event(item, lines.outcome(item, time.time()))
                else:
                    yield item

    def forget(self, token: str) -> None:
        """Drop what was kept for an adoption."""
        self._processes.forget(token)


def load_script(path: Path) -> Script:
    """Read and check a script, or say which file and key are wrong."""
    try:
        return Script.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise UsageError(f"{path}: {_first(error)}", hint="docs/scripted-agent.md lists every key.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} is not a readable TOML file: {error}") from None


def _first(error: ValidationError) -> str:
    problem: dict[str, Any] = dict(error.errors()[0])
    place = ""
    for part in problem["loc"]:
        place += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
    return f"{place.lstrip('.')}: {problem['msg']}"
