"""The cursor agent: the Cursor CLI, which is called `agent` or `cursor-agent`.

Its behaviour was learned by watching it: see `docs/guides/agents.md` for the flags, and `lines` for what it
prints. Each launch is one process that gets the prompt on stdin; the plan is the argument of a tool call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Literal

from msgspec import field

from segue.agents.cursor.lines import LOGIN, CursorLines
from segue.agents.local.launch import flag, run_program
from segue.agents.local.program import (
    InstalledProgram,
    LoginProbe,
    Program,
    check_program_name,
    find_key,
    in_home,
)
from segue.domain.events import Event
from segue.domain.job import Job, Mode
from segue.domain.options import NonNegativeFloat, Options
from segue.domain.outcome import Outcome
from segue.ports import Capabilities
from segue.system.isolation.policy import Places
from segue.system.process.processes import Command
from segue.system.services import Services

_CURSOR = Program(
    "cursor",
    "the Cursor CLI",
    ("agent", "cursor-agent"),
    "Install the Cursor CLI: https://cursor.com/docs/cli/overview",
    r"\d{4}\.\d\d\.\d\d-[0-9a-f]+",
    LOGIN,
    LoginProbe(
        ("status", "--format", "json"),
        r"(?i)not (?:logged|signed) in",
        r'(?i)(?:logged|signed) in|"isAuthenticated"\s*:\s*true',
    ),
)
_QUIET = {"NO_OPEN_BROWSER": "1"}
_KEY = "CURSOR_API_KEY"
_CONFIG = "cli-config.json"
_LOGIN_FILE = "auth.json"


class CursorOptions(Options, frozen=True):
    """The table `[agents.cursor]`."""

    agent_cmd: str | None = None
    """The program: a name on PATH or a full path; `agent`, then `cursor-agent` if unset. One that
    prints plain text is believed: what it prints is its answer."""
    sandbox: Literal["enabled", "disabled"] | None = "disabled"
    """Cursor's own sandbox in edit mode; unset: Cursor decides. Not a security boundary."""
    force: bool = True
    """In edit mode, let the agent run any command without asking: tests need it."""
    trust: bool = True
    """Trust the workspace; otherwise Cursor refuses a new folder."""
    approve_mcps: bool = False
    """Approve all MCP servers that are configured for Cursor."""
    extra_args: list[str] = []
    """More arguments, after all others."""
    pass_env: list[str] = field(default_factory=lambda: [_KEY])
    """Environment variables that the agent may see."""
    own_config_dir: bool = True
    """Use a CURSOR_CONFIG_DIR per launch, so that launches do not collide."""
    result_grace: NonNegativeFloat = 5.0
    """Seconds that Cursor may take to exit after its result before it is stopped."""

    def __post_init__(self) -> None:
        check_program_name(self.agent_cmd)


class CursorAgent:
    """Runs the Cursor CLI, one process per launch."""

    Options = CursorOptions
    name = "cursor"
    usual_flow = "plan"
    can = Capabilities(plan_mode=True, ask_mode=True, follow_up=True, streams=True, reports_usage=True)

    def __init__(self, options: CursorOptions, services: Services) -> None:
        self._options, self._services = options, services
        self._program = InstalledProgram(_CURSOR, options.agent_cmd, self._passed, self._key, _QUIET)
        self.check, self.installation = self._program.check, self._program.installation
        self.forget = services.processes.forget

    def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Run Cursor on the job and report what it prints."""
        lines = CursorLines(job.mode, job.hear, plain=self._options.agent_cmd is not None)
        patience = _limit_after_result(lines, self._options.result_grace)
        return run_program(self._services, job, self._command(job), lines, patience)

    def _command(self, job: Job) -> Command:
        variables: dict[str, str] = {}
        if self._options.own_config_dir:
            variables["CURSOR_CONFIG_DIR"] = str(
                _prepare_config_dir(self._services.processes.scratch(job.token))
            )
        folders = (*map(Path, variables.values()), *in_home(".cursor", ".config/cursor"))
        own = Places(folders, in_home(".local/share/cursor-agent"))
        return self._program.command(job, self._arguments(job), variables, own)

    def _arguments(self, job: Job) -> list[str]:
        options = self._options
        editing = [*(["--force"] if options.force else []), *flag("--sandbox", options.sandbox)]
        return [
            *("-p", "--output-format", "stream-json"),
            *(["--stream-partial-output"] if job.hear else []),
            *(["--trust"] if options.trust else []),
            *(["--approve-mcps"] if options.approve_mcps else []),
            *(editing if job.mode is Mode.EDIT else ["--mode", job.mode.value]),
            *flag("--model", job.model),
            *("--workspace", str(job.workspace)),
            # The value of --resume is optional, so it must be attached.
            *([f"--resume={job.session}"] if job.session else []),
            *options.extra_args,
        ]

    def _passed(self) -> list[str]:
        return [*self._options.pass_env, "AGENT_CLI_CREDENTIAL_STORE"]

    def _key(self) -> str | None:
        return find_key([_KEY], self._options.pass_env)


def _limit_after_result(lines: CursorLines, grace: float) -> Callable[[], float | None]:
    """Return the patience with a process that has given its result, whatever it still prints."""
    deadline: float | None = None

    def patience() -> float | None:
        nonlocal deadline
        now = asyncio.get_running_loop().time()
        if deadline is None and lines.is_finished:
            deadline = now + grace
        return None if deadline is None else max(0.0, deadline - now)

    return patience


def _prepare_config_dir(folder: Path) -> Path:
    """Make the folder a CURSOR_CONFIG_DIR: launches that share one race for its files when they start.

    It has the user's permissions, above all the denied ones. Cursor usually keeps the login elsewhere; if it
    is a file next to the configuration, it is linked, never copied.
    """
    user = _find_user_config()
    # An adopted launch already uses the folder: keep what is there.
    if not (folder / _CONFIG).exists() and (user / _CONFIG).is_file():
        shutil.copyfile(user / _CONFIG, folder / _CONFIG)
    if (user / _LOGIN_FILE).is_file():
        with contextlib.suppress(OSError):  # it exists, or the system has no links
            (folder / _LOGIN_FILE).symlink_to(user / _LOGIN_FILE)
    return folder


def _find_user_config() -> Path:
    if named := os.environ.get("CURSOR_CONFIG_DIR"):
        return Path(named)
    if sys.platform != "darwin" and (home := os.environ.get("XDG_CONFIG_HOME")):
        return Path(home) / "cursor"
    return Path.home() / ".cursor"
