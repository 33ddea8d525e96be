"""The cursor agent: the Cursor CLI, which is called `cursor-agent` or `agent`.

Its contract was learnt from watching it: see docs/cursor.md for the flags, and `cursor_lines` for what it
prints. Each launch is one process; the prompt goes in by stdin; the plan comes out of a tool call.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from segue.agents.cursor.config import own_config_dir
from segue.agents.cursor.lines import CursorLines
from segue.agents.installed import PROBE_SECONDS, Examined, ProgramName, key_set, not_found
from segue.agents.lingering import Patience, run_patiently
from segue.agents.local import Ended, ended_event, environment
from segue.domain.errors import CredentialsError, ToolMissing
from segue.domain.event import Event
from segue.domain.job import Job, Mode
from segue.ports import Capabilities, Installation, Problem
from segue.system.process.capture import probe
from segue.system.process.processes import Command, Processes, child_environment
from segue.system.redact import Redactor

INSTALL = "https://cursor.com/docs/cli/overview"
SIM_PREFIX = "SEGUE_SIM_"
"""Variables for the stand-in of `segue sim bin` reach the agent: see docs/rehearsing.md."""

_NAMES = ("cursor-agent", "agent")
_VERSION = re.compile(r"\d{4}\.\d\d\.\d\d-[0-9a-f]+")
_NOT_LOGGED_IN = re.compile(r"not (?:logged|signed) in", re.IGNORECASE)
_LOGGED_IN = re.compile(r'(?:logged|signed) in|"isAuthenticated"\s*:\s*true', re.IGNORECASE)
_KEY = "CURSOR_API_KEY"


class CursorOptions(BaseModel):
    """The table `[agents.cursor]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent_cmd: ProgramName | None = Field(
        default=None,
        description="The program: a name on PATH or a full path; `cursor-agent`, then `agent` if unset.",
    )
    sandbox: Literal["enabled", "disabled"] | None = Field(
        default="disabled",
        description="Cursor's own sandbox in edit mode; unset leaves it to Cursor. No security boundary.",
    )
    force: bool = Field(
        default=True, description="In edit mode, let the agent run any command without asking: tests need it."
    )
    trust: bool = Field(
        default=True, description="Trust the workspace; without it Cursor refuses a new folder."
    )
    approve_mcps: bool = Field(
        default=False, description="Approve all MCP servers that are configured for Cursor."
    )
    extra_args: list[str] = Field(default=[], description="Further arguments, put after all others.")
    pass_env: list[str] = Field(default=[_KEY], description="Environment variables the agent may see.")
    own_config_dir: bool = Field(
        default=True,
        description="A CURSOR_CONFIG_DIR per launch, so that launches at the same time do not collide.",
    )
    result_grace: float = Field(
        default=5.0, ge=0, description="Seconds Cursor may take to exit after its result, before it is ended."
    )


class CursorAgent:
    """Runs the Cursor CLI, one process per launch."""

    Options = CursorOptions
    name = "cursor"
    usual_flow = "plan"
    can = Capabilities(plan_mode=True, ask_mode=True, follow_up=True, streams=True, reports_usage=True)

    def __init__(self, options: CursorOptions, processes: Processes, redactor: Redactor) -> None:
        self._options = options
        self._processes = processes
        self._redactor = redactor
        self._known: Examined | None = None

    def check(self) -> list[Problem]:
        """Whether the program is there, is Cursor's, and is logged in; found out once."""
        return list(self._examined().problems)

    def installation(self) -> Installation:
        """Where the program is, in which version, and what it is logged in with; found out once."""
        return self._examined().installation

    async def run(self, job: Job) -> AsyncGenerator[Event, None]:
        """Run Cursor on the job and report what it prints."""
        lines = CursorLines(job.mode)
        patience = _time_after_result(lines, self._options.result_grace)
        items = run_patiently(
            self._processes, self._redactor, job.token, self._launch(job), lines.read, patience
        )
        async with aclosing(items):
            async for item in items:
                if isinstance(item, Ended):
                    last = ended_event(item, lines.outcome(item, time.time()))
                    yield replace(last, data={**last.data, **lines.facts()})
                else:
                    yield item

    def forget(self, token: str) -> None:
        """Drop what was kept for an adoption."""
        self._processes.forget(token)

    def _launch(self, job: Job) -> Command:
        extra = {"NO_OPEN_BROWSER": "1"}
        if self._options.own_config_dir:
            extra["CURSOR_CONFIG_DIR"] = str(own_config_dir(self._processes.scratch(job.token)))
        env = environment(job, self._passed(), extra)
        argv = (self._program() or self._options.agent_cmd or _NAMES[0], *self._arguments(job))
        return Command(argv, job.workspace, env, job.prompt.text.encode("utf-8", "replace"), job.limits)

    def _arguments(self, job: Job) -> list[str]:
        options = self._options
        arguments = ["-p", "--output-format", "stream-json"]
        arguments += ["--trust"] if options.trust else []
        arguments += ["--approve-mcps"] if options.approve_mcps else []
        if job.mode is Mode.EDIT:
            arguments += ["--force"] if options.force else []
            arguments += ["--sandbox", options.sandbox] if options.sandbox else []
        else:
            arguments += ["--mode", job.mode.value]
        arguments += ["--model", job.model] if job.model else []
        arguments += ["--workspace", str(job.workspace)]
        # The value of --resume is optional, so it must be attached.
        arguments += [f"--resume={job.session}"] if job.session else []
        return [*arguments, *options.extra_args]

    def _passed(self) -> list[str]:
        rehearsal = [name for name in os.environ if name.startswith(SIM_PREFIX)]
        return [*self._options.pass_env, "AGENT_CLI_CREDENTIAL_STORE", *rehearsal]

    def _program(self) -> str | None:
        path = child_environment(self._options.pass_env).get("PATH")
        names = (self._options.agent_cmd,) if self._options.agent_cmd else _NAMES
        return next((found for name in names if (found := shutil.which(name, path=path))), None)

    def _examined(self) -> Examined:
        if self._known is None:
            self._known = self._found()
        return self._known

    def _found(self) -> Examined:
        program = self._program()
        fix = f"Install the Cursor CLI: {INSTALL} — or set agents.cursor.agent_cmd to its path."
        if program is None:
            names = [self._options.agent_cmd] if self._options.agent_cmd else _NAMES
            missing = not_found("The Cursor CLI", names, child_environment(self._options.pass_env))
            return Examined(problems=(Problem(missing, fix, ToolMissing.exit_code),))
        version = self._ask(program, "--version")
        if version is None or not _VERSION.fullmatch(version.strip()):
            said = "nothing" if version is None else repr(version.strip()[:80])
            message = f"{program} is not the Cursor CLI: asked for its version, it said {said}."
            return Examined(Installation(program), (Problem(message, fix, ToolMissing.exit_code),))
        return self._with_login(Installation(program, version.strip()), program)

    def _with_login(self, found: Installation, program: str) -> Examined:
        if key := key_set([_KEY], self._options.pass_env):
            return Examined(replace(found, login=key))
        status = self._ask(program, "status", "--format", "json") or ""
        if not _NOT_LOGGED_IN.search(status):
            return Examined(replace(found, login="logged in" if _LOGGED_IN.search(status) else "not known"))
        fix = f"Run `{Path(program).name} login`, or set {_KEY}."
        return Examined(found, (Problem("Cursor is not logged in.", fix, CredentialsError.exit_code),))

    def _ask(self, program: str, *arguments: str) -> str | None:
        env = child_environment(self._passed(), {"NO_OPEN_BROWSER": "1"})
        answer = probe([program, *arguments], PROBE_SECONDS, env)
        return None if answer is None else answer.out.decode("utf-8", "replace")


def _time_after_result(lines: CursorLines, grace: float) -> Patience:
    """A process that has given its result is to end soon, whatever it still prints."""
    deadline: float | None = None

    def patience() -> float | None:
        nonlocal deadline
        now = asyncio.get_running_loop().time()
        if deadline is None and lines.finished:
            deadline = now + grace
        return None if deadline is None else max(0.0, deadline - now)

    return patience
