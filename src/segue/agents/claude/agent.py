"""The claude agent: Claude Code, the program `claude`, without its terminal interface.

See docs/claude.md for the flags and what they allow, and `claude_lines` for what it prints. Each launch is
one process; the prompt goes in by stdin; all launches of a run share a configuration folder of their own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from segue.agents.claude.lines import ClaudeLines
from segue.agents.installed import PROBE_SECONDS, Examined, Installable, ProgramName, key_set
from segue.agents.lingering import run_patiently
from segue.agents.local import Ended, ended_event, environment
from segue.agents.session_usage import remember, used_before
from segue.domain.errors import CredentialsError
from segue.domain.event import Event
from segue.domain.job import Job, Mode
from segue.ports import Capabilities, Installation, Problem
from segue.system.process.capture import probe
from segue.system.process.processes import Command, Processes, child_environment
from segue.system.redact import Redactor

CLAUDE = Installable(
    "Claude Code", "claude", "@anthropic-ai/claude-code", r"\d+\.\d+\.\d+\S* \(Claude Code\)"
)
_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
_TOOLS, _WEB = "Read,Grep,Glob", "WebSearch,WebFetch"


class ClaudeOptions(BaseModel):
    """The table `[agents.claude]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent_cmd: ProgramName | None = Field(
        default=None, description="The program: a name on PATH or a full path; `claude` if unset."
    )
    permission_mode: Literal["bypassPermissions", "acceptEdits", "auto", "dontAsk"] = Field(
        default="bypassPermissions",
        description="What Claude may do in edit mode without asking; what it may not is denied.",
    )
    allowed_tools: list[str] = Field(
        default=[], description="Tools it may also use in edit mode, such as `Bash(git *)`."
    )
    max_turns: int | None = Field(default=None, ge=1, description="Turns of the model in one launch.")
    max_budget_usd: float | None = Field(
        default=None, gt=0, description="Dollars one launch may cost, as Claude counts them."
    )
    max_retries: int = Field(
        default=4,
        ge=0,
        description="How often Claude repeats a request its service refused; unset it does 10.",
    )
    extra_args: list[str] = Field(default=[], description="Further arguments, put after all others.")
    pass_env: list[str] = Field(
        default=[*_KEYS, "ANTHROPIC_BASE_URL"], description="Environment variables the agent may see."
    )
    own_config_dir: bool = Field(
        default=True,
        description="A CLAUDE_CONFIG_DIR per run, if a key or token is set; without one your login is used.",
    )
    result_grace: float = Field(
        default=60.0,
        ge=0,
        description="Seconds of silence after a result, while a command runs in the background.",
    )


class ClaudeAgent:
    """Runs Claude Code, one process per launch."""

    Options = ClaudeOptions
    name = "claude"
    can = Capabilities(
        plan_mode=True, ask_mode=True, follow_up=True, streams=True, reports_usage=True, reports_cost=True
    )

    def __init__(self, options: ClaudeOptions, processes: Processes, redactor: Redactor) -> None:
        self._options = options
        self._processes = processes
        self._redactor = redactor
        self._known: Examined | None = None

    def check(self) -> list[Problem]:
        """Whether the program is there, is Claude Code, and has a key or a login; found out once."""
        return list(self._examined().problems)

    def installation(self) -> Installation:
        """Where the program is, in which version, and what it is logged in with; found out once."""
        return self._examined().installation

    async def run(self, job: Job) -> AsyncGenerator[Event, None]:
        """Run Claude Code on the job and report what it prints."""
        shared, scratch = self._processes.shared(self.name), self._processes.scratch(job.token)
        lines = ClaudeLines(job.mode, used_before(shared, scratch, job.session))
        grace = self._options.result_grace
        items = run_patiently(
            self._processes,
            self._redactor,
            job.token,
            self._launch(job),
            lines.read,
            lambda: grace if lines.finished else None,
        )
        async with aclosing(items):
            async for item in items:
                if isinstance(item, Ended):
                    outcome = lines.outcome(item, time.time())
                    remember(shared, outcome.session, lines.total)
                    last = ended_event(item, outcome)
                    yield replace(last, data={**last.data, **lines.facts()})
                else:
                    yield item

    def forget(self, token: str) -> None:
        """Drop what was kept for an adoption."""
        self._processes.forget(token)

    def _launch(self, job: Job) -> Command:
        extra = {**_QUIET, "CLAUDE_CODE_MAX_RETRIES": str(self._options.max_retries)}
        if self._options.own_config_dir and self._has_key():
            extra["CLAUDE_CONFIG_DIR"] = str(self._processes.shared("claude-config"))
        if job.mode is Mode.EDIT and self._options.permission_mode == "bypassPermissions" and _is_root():
            extra["IS_SANDBOX"] = "1"  # else it refuses to run as root
        env = environment(job, self._passed(), extra)
        argv = (self._program() or self._options.agent_cmd or CLAUDE.name, *self._arguments(job))
        return Command(argv, job.workspace, env, job.prompt.text.encode("utf-8", "replace"), job.limits)

    def _arguments(self, job: Job) -> list[str]:
        options = self._options
        arguments = ["-p", "--output-format", "stream-json", "--verbose"]
        if job.mode is Mode.EDIT:
            arguments += ["--permission-mode", options.permission_mode]
            arguments += ["--allowedTools", ",".join(options.allowed_tools)] if options.allowed_tools else []
        else:
            arguments += ["--permission-mode", "plan"] if job.mode is Mode.PLAN else _reading(job)
        arguments += ["--model", job.model] if job.model else []
        arguments += ["--max-turns", str(options.max_turns)] if options.max_turns else []
        arguments += ["--max-budget-usd", f"{options.max_budget_usd:f}"] if options.max_budget_usd else []
        arguments += ["--resume", job.session] if job.session else []
        return [*arguments, *options.extra_args]

    def _passed(self) -> list[str]:
        """Names of variables; the folder the user has configured holds unless the run has its own."""
        return [*self._options.pass_env, "CLAUDE_CONFIG_DIR"]

    def _has_key(self) -> bool:
        return key_set(_KEYS, self._options.pass_env) is not None

    def _program(self) -> str | None:
        return CLAUDE.find(self._options.agent_cmd, child_environment(self._options.pass_env))

    def _examined(self) -> Examined:
        if self._known is None:
            env = child_environment(self._passed(), _QUIET)
            found = CLAUDE.examine(self._options.agent_cmd, self._program(), env)
            program = found.installation.program
            self._known = (
                found if found.problems or program is None else self._with_login(found, program, env)
            )
        return self._known

    def _with_login(self, found: Examined, program: str, env: Mapping[str, str]) -> Examined:
        if key := key_set(_KEYS, self._options.pass_env):
            return replace(found, installation=replace(found.installation, login=key))
        answer = probe([program, "auth", "status", "--json"], PROBE_SECONDS, env)
        logged_in = _logged_in(b"" if answer is None else answer.out)
        if logged_in is not False:
            login = "logged in" if logged_in else "not known"
            return replace(found, installation=replace(found.installation, login=login))
        fix = "Run `claude auth login`, or set ANTHROPIC_API_KEY."
        return replace(
            found, problems=(Problem("Claude Code is not logged in.", fix, CredentialsError.exit_code),)
        )


def _reading(job: Job) -> list[str]:
    """Only tools that change nothing; those for the web where the job wants them."""
    web = ["--allowedTools", _WEB] if job.web else []
    return ["--tools", f"{_TOOLS},{_WEB}" if job.web else _TOOLS, *web, "--permission-mode", "dontAsk"]


def _logged_in(answer: bytes) -> bool | None:
    """None when it cannot be told."""
    try:
        status = json.loads(answer)
    except ValueError:
        return None
    said = status.get("loggedIn") if isinstance(status, dict) else None
    return said if isinstance(said, bool) else None


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0
