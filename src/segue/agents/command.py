"""The command agent: any program that takes a prompt on stdin and works in the current folder."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from segue.agents.local.launch import PlainOutput, make_command, run_program
from segue.domain.errors import ToolMissing
from segue.domain.events import Event
from segue.domain.job import Job, Mode
from segue.domain.options import OptionError, Options, fill_placeholders
from segue.domain.outcome import Outcome
from segue.ports import Capabilities, Installation, Problem
from segue.system.process.processes import inside_environment
from segue.system.programs import find_inside
from segue.system.services import Services

_PROMPT = "{prompt}"
_PLACEHOLDERS = ("model", "mode", "workspace", "task", "session", "prompt")


class CommandOptions(Options, frozen=True):
    """The table `[agents.command]`."""

    argv: Annotated[list[str], Meta(min_length=1)]
    """The program and its arguments. Replaced in them: {model}, {mode}, {workspace}, {task}, {session}, and
    {prompt}, which otherwise comes on stdin; a brace is {{ or }}."""
    pass_env: list[str] = []
    """Environment variables that the program may see."""
    env: dict[str, str] = {}
    """Environment variables to set for the program."""

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise OptionError("argv", "the first element names the program and cannot be empty")
        for index, argument in enumerate(self.argv):
            if "\0" in argument:
                raise OptionError(f"argv[{index}]", "an argument cannot contain a null character")
            try:
                fill_placeholders(argument, dict.fromkeys(_PLACEHOLDERS, ""))
            except ValueError as error:
                raise OptionError(f"argv[{index}]", str(error)) from None


class CommandAgent:
    """Runs a program of the user's choice."""

    Options = CommandOptions
    name = "command"
    has_vendor = False
    can = Capabilities(streams=True)

    def __init__(self, options: CommandOptions, services: Services) -> None:
        self._options, self._services = options, services

    def check(self) -> list[Problem]:
        """Return a problem if the program cannot be executed, as far as is known without a workspace."""
        program = self._options.argv[0]
        if self._is_in_workspace() or self._find():
            return []
        if Path(program).is_file():
            fix = f"Make it executable: chmod +x {program}"
            return [Problem(f"{program} cannot be executed.", fix, ToolMissing.exit_code)]
        where = "" if _has_folder(program) else " on PATH"
        fix = "Install it, or set agents.command.argv to the program's full path."
        return [Problem(f"{program} was not found{where}.", fix, ToolMissing.exit_code)]

    def installation(self) -> Installation:
        """Return where the program is. It is not asked for a version: nobody knows what it would do."""
        return Installation() if self._is_in_workspace() else Installation(self._find())

    def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Run the program and keep what it prints."""
        stdin = "" if any(_PROMPT in argument for argument in self._options.argv) else None
        command = make_command(job, self._argv(job), self._options.pass_env, self._options.env, stdin)
        return run_program(
            self._services, job, command, PlainOutput(job.model, logs=job.mode is Mode.EDIT, hear=job.hear)
        )

    def forget(self, token: str) -> None:
        """Drop what was kept for an adoption."""
        self._services.processes.forget(token)

    def _is_in_workspace(self) -> bool:
        """Return whether the program can only be found when there is a job."""
        program = self._options.argv[0]
        return "{" in program or (_has_folder(program) and not Path(program).is_absolute())

    def _find(self) -> str | None:
        path = inside_environment(self._options.pass_env, self._options.env).get("PATH")
        return find_inside(self._options.argv[0], path)

    def _argv(self, job: Job) -> tuple[str, ...]:
        values = {
            "model": job.model or "",
            "mode": job.mode.value,
            "workspace": str(job.workspace),
            "task": job.labels.get("task", ""),
            "session": job.session or "",
            "prompt": job.prompt.text.replace("\0", ""),
        }
        program, *arguments = (fill_placeholders(argument, values) for argument in self._options.argv)
        if _has_folder(program):
            program = str(job.workspace / program)
        return (program, *arguments)


def _has_folder(program: str) -> bool:
    return os.sep in program or "/" in program
