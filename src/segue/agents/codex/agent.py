"""The codex agent: OpenAI's Codex CLI, as `codex exec`.

See docs/codex.md for the flags and what they allow, and `codex_lines` for what it prints. Each launch is
one process; the prompt goes in by stdin; all launches of a run share a CODEX_HOME of their own.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from segue.agents.codex.lines import CodexLines
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

CODEX = Installable("Codex", "codex", "@openai/codex", r"codex-cli \d+\.\d+\.\d+\S*")
_KEY = "CODEX_API_KEY"
_GAVE_UP = "gave-up"
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
# It asks several hosts about plugins and itself on every start, and waits for those it cannot reach.
_QUIET = ["-c", "analytics.enabled=false", "--disable", "plugins"]


class CodexOptions(BaseModel):
    """The table `[agents.codex]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent_cmd: ProgramName | None = Field(
        default=None, description="The program: a name on PATH or a full path; `codex` if unset."
    )
    sandbox: Literal["workspace-write", "none"] = Field(
        default="workspace-write",
        description="Where commands may write in edit mode: repository and temporary folders, or anywhere.",
    )
    network: bool = Field(
        default=False, description="Let commands use the network inside the sandbox, loopback included."
    )
    config: list[str] = Field(
        default=[], description='Settings of Codex, each as `-c` takes it: `model_reasoning_effort="high"`.'
    )
    extra_args: list[str] = Field(default=[], description="Further arguments, put before the prompt.")
    pass_env: list[str] = Field(default=[_KEY], description="Environment variables the agent may see.")
    own_config_dir: bool = Field(
        default=True,
        description="A CODEX_HOME per run, if a key or a provider is set; without one your login is used.",
    )
    offline_grace: float = Field(
        default=120.0,
        ge=0,
        description="Seconds Codex may try in vain to reach its service before it is ended.",
    )


class CodexAgent:
    """Runs `codex exec`, one process per launch."""

    Options = CodexOptions
    name = "codex"
    can = Capabilities(plan_mode=True, ask_mode=True, follow_up=True, streams=True, reports_usage=True)

    def __init__(self, options: CodexOptions, processes: Processes, redactor: Redactor) -> None:
        self._options = options
        self._processes = processes
        self._redactor = redactor
        self._known: Examined | None = None

    def check(self) -> list[Problem]:
        """Whether the program is there, is Codex, and has a key or a login; found out once."""
        return list(self._examined().problems)

    def installation(self) -> Installation:
        """Where the program is, in which version, and what it is logged in with; found out once."""
        return self._examined().installation

    async def run(self, job: Job) -> AsyncGenerator[Event, None]:
        """Run Codex on the job and report what it prints."""
        shared, scratch = self._processes.shared(self.name), self._processes.scratch(job.token)
        lines = CodexLines(job.mode, used_before(shared, scratch, job.session))
        command = self._launch(job)

        def patience() -> float | None:
            if lines.offline_since is None:
                return None
            return max(0.0, lines.offline_since + self._options.offline_grace - time.monotonic())

        gave_up = scratch / _GAVE_UP
        items = run_patiently(
            self._processes, self._redactor, job.token, command, lines.read, patience, gave_up.touch
        )
        async with aclosing(items):
            async for item in items:
                if isinstance(item, Ended):
                    outcome = replace(lines.outcome(item, time.time(), gave_up.exists()), model=job.model)
                    remember(shared, outcome.session, lines.total)
                    last = ended_event(item, outcome)
                    yield replace(last, data={**last.data, **lines.facts()})
                else:
                    yield item

    def forget(self, token: str) -> None:
        """Drop what was kept for an adoption."""
        self._processes.forget(token)

    def _launch(self, job: Job) -> Command:
        own = self._options.own_config_dir and self._has_key()
        extra = {"CODEX_HOME": str(self._processes.shared("codex-home"))} if own else {}
        env = environment(job, self._passed(), extra)
        argv = (self._program() or self._options.agent_cmd or CODEX.name, *self._arguments(job))
        return Command(argv, job.workspace, env, job.prompt.text.encode("utf-8", "replace"), job.limits)

    def _arguments(self, job: Job) -> list[str]:
        options = self._options
        arguments = ["exec", "--color", "never", *(["resume"] if job.session else []), "--json", *_QUIET]
        arguments += ["--skip-git-repo-check", *self._sandbox(job)]
        arguments += ["-c", 'web_search="live"'] if job.web else []
        arguments += ["-m", job.model] if job.model else []
        for setting in options.config:
            arguments += ["-c", setting]
        return [*arguments, *options.extra_args, *([job.session] if job.session else []), "-"]

    def _sandbox(self, job: Job) -> list[str]:
        if job.mode is Mode.EDIT and self._options.sandbox == "none":
            return ["--dangerously-bypass-approvals-and-sandbox"]
        mode = self._options.sandbox if job.mode is Mode.EDIT else "read-only"
        network = job.mode is Mode.EDIT and self._options.network
        # `exec resume` does not take -s.
        chosen = ["-c", f'sandbox_mode="{mode}"'] if job.session else ["-s", mode]
        return [*chosen, *(["-c", "sandbox_workspace_write.network_access=true"] if network else [])]

    def _passed(self) -> list[str]:
        """Names of variables; the folder the user has configured holds unless the run has its own."""
        return [*self._options.pass_env, "CODEX_HOME"]

    def _has_key(self) -> bool:
        return self._key() is not None

    def _key(self) -> str | None:
        """What it needs no login for: a key, or a provider of the user's own."""
        given = any(setting.startswith("model_provider") for setting in self._options.config)
        return "agents.codex.config" if given else key_set([_KEY], self._options.pass_env)

    def _program(self) -> str | None:
        found = CODEX.find(self._options.agent_cmd, child_environment(self._options.pass_env))
        return found and (_native(Path(found)) or found)

    def _examined(self) -> Examined:
        if self._known is None:
            env = child_environment(self._passed())
            found = CODEX.examine(self._options.agent_cmd, self._program(), env)
            program = found.installation.program
            self._known = (
                found if found.problems or program is None else self._with_login(found, program, env)
            )
        return self._known

    def _with_login(self, found: Examined, program: str, env: Mapping[str, str]) -> Examined:
        if key := self._key():
            return replace(found, installation=replace(found.installation, login=key))
        answer = probe([program, "login", "status"], PROBE_SECONDS, env)
        said = b"" if answer is None else answer.out + answer.err
        if b"Not logged in" not in said:
            login = "logged in" if b"Logged in" in said else "not known"
            return replace(found, installation=replace(found.installation, login=login))
        fix = f"Run `codex login`, or set {_KEY}; `codex exec` does not read OPENAI_API_KEY."
        return replace(found, problems=(Problem("Codex is not logged in.", fix, CredentialsError.exit_code),))


def _native(found: Path) -> str | None:
    """The program that npm's launcher would start: killing a launcher on an old node leaves it alive."""
    launcher = found.resolve()
    if launcher.suffix != ".js":
        return None
    machine = _MACHINES.get(platform.machine().lower(), platform.machine())
    package = launcher.parent.parent
    for place in (package.parent, package / "node_modules" / "@openai"):
        for program in sorted(place.glob(f"codex-{sys.platform}-{machine}/vendor/*/bin/*")):
            if program.name in ("codex", "codex.exe") and os.access(program, os.X_OK):
                return str(program)
    return None
