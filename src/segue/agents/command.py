"""The command agent: any program that takes a prompt on stdin and works in the current folder."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from segue.agents.local import Ended, ended_event, environment, run_local
from segue.domain.argv import fill as fill
from segue.domain.errors import ToolMissing
from segue.domain.event import Event
from segue.domain.job import Job
from segue.domain.outcome import Outcome
from segue.ports import Capabilities, Installation, Problem
from segue.system.process.processes import Command, Processes, child_environment
from segue.system.redact import Redactor

_TEXT_BYTES = 64 * 1024
_PLACEHOLDERS = ("model", "mode", "workspace", "task", "session")


def _argument(argument: str) -> str:
    if "\0" in argument:
        raise ValueError("an argument cannot hold a null character")
    fill(argument, dict.fromkeys(_PLACEHOLDERS, ""))
    return argument


def _program(argv: list[str]) -> list[str]:
    if not argv[0]:
        raise ValueError("the first element names the program and cannot be empty")
    return argv


class CommandOptions(BaseModel):
    """The table `[agents.command]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    argv: Annotated[list[Annotated[str, AfterValidator(_argument)]], AfterValidator(_program)] = Field(
        min_length=1,
        description="The program and its arguments. Replaced in them: {model}, {mode}, {workspace}, {task}, "
        "{session}; a brace is {{ or }}.",
    )
    pass_env: list[str] = Field(default=[], description="Environment variables the program may see.")
    env: dict[str, str] = Field(default={}, description="Environment variables to set for the program.")


class CommandAgent:
    """Runs a program of the user's choice."""

    Options = CommandOptions
    name = "command"
    can = Capabilities(streams=True)

    def __init__(self, options: CommandOptions, processes: Processes, redactor: Redactor) -> None:
        self._options = options
        self._processes = processes
        self._redactor = redactor

    def check(self) -> list[Problem]:
        """Whether the program can be found and executed, as far as that does not depend on the workspace."""
        program = self._options.argv[0]
        if self._in_workspace():
            return []
        path = child_environment(self._options.pass_env, self._options.env).get("PATH")
        if shutil.which(program, path=path):
            return []
        if Path(program).is_file():
            fix = f"Make it executable: chmod +x {program}"
            return [Problem(f"{program} cannot be executed.", fix, ToolMissing.exit_code)]
        where = "" if _has_folder(program) else " on PATH"
        fix = "Install it, or set agents.command.argv to the program's full path."
        return [Problem(f"{program} was not found{where}.", fix, ToolMissing.exit_code)]

    def installation(self) -> Installation:
        """Where the program is; nothing is asked of it, for nobody knows what it would do."""
        if self._in_workspace():
            return Installation()
        path = child_environment(self._options.pass_env, self._options.env).get("PATH")
        return Installation(shutil.which(self._options.argv[0], path=path))

    async def run(self, job: Job) -> AsyncGenerator[Event, None]:
        """Run the program and keep what it prints."""
        env = environment(job, self._options.pass_env, self._options.env)
        stdin = job.prompt.text.encode("utf-8", "replace")
        command = Command(self._argv(job), job.workspace, env, stdin, job.limits)
        items = run_local(self._processes, self._redactor, job.token, command, out_tail_bytes=_TEXT_BYTES)
        async with aclosing(items):
            async for item in items:
                yield ended_event(item, _outcome(item, job)) if isinstance(item, Ended) else item

    def forget(self, token: str) -> None:
        """Drop what was kept for an adoption."""
        self._processes.forget(token)

    def _in_workspace(self) -> bool:
        """Whether only a job tells where the program is."""
        program = self._options.argv[0]
        return "{" in program or (_has_folder(program) and not Path(program).is_absolute())

    def _argv(self, job: Job) -> tuple[str, ...]:
        values = {
            "model": job.model or "",
            "mode": job.mode.value,
            "workspace": str(job.workspace),
            "task": job.labels.get("task", ""),
            "session": job.session or "",
        }
        program, *arguments = (fill(argument, values) for argument in self._options.argv)
        if _has_folder(program):
            program = str(job.workspace / program)
        return (program, *arguments)


def _has_folder(program: str) -> bool:
    return os.sep in program or "/" in program


def _outcome(ended: Ended, job: Job) -> Outcome:
    from segue.domain.classify import plain

    return Outcome(
        text=plain(ended.out_tail).strip(),
        failure=ended.failure(time.time()),
        exit_code=ended.exit.code,
        model=job.model,
        duration=ended.exit.duration,
    )
