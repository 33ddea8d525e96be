"""Agents that speak the Agent Client Protocol: Gemini, Copilot, OpenCode, Qwen, Vibe, Cursor, and the user's.

What differs between them stands in `acp_profiles`. Each launch is one process of our own, the driver
`acp_child`, which starts the agent and speaks with it; `acp_lines` reads what the driver prints.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from segue import __version__
from segue.agents.acp import profiles as acp_profiles
from segue.agents.acp.lines import AcpLines
from segue.agents.acp.profiles import ModeNames, Policy, Profile
from segue.agents.installed import PROBE_SECONDS, Examined, ProgramName, key_set, not_found, version_in
from segue.agents.local import Ended, ended_event, environment, run_local
from segue.agents.session_usage import remember, used_before
from segue.domain.errors import ToolMissing
from segue.domain.event import Event, EventType
from segue.domain.job import Job, Mode
from segue.ports import Capabilities, Installation, Problem
from segue.system.files import write_atomic
from segue.system.process.capture import probe
from segue.system.process.processes import Command, Processes, child_environment
from segue.system.program import part_command
from segue.system.redact import Redactor

_SIM_PREFIX = "SEGUE_SIM_"
"""Variables for the stand-in of `segue sim bin`."""


class AcpOptions(BaseModel):
    """The table `[agents.NAME]` of an agent that speaks the Agent Client Protocol."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent_cmd: ProgramName | None = Field(
        default=None, description="The program: a name on PATH or a full path; the profile's if unset."
    )
    extra_args: list[str] = Field(default=[], description="Further arguments, put after all others.")
    env: dict[str, str] = Field(default={}, description="Variables to set. Secrets belong into pass_env.")
    pass_env: list[str] = Field(
        default=[], description="Environment variables the agent may see, beside those of its profile."
    )
    permissions: Policy | None = Field(
        default=None,
        description="What is allowed in edit mode when the agent asks: `all`, `edits` (reading and changing "
        "files) or `read`; the profile's if unset.",
    )
    modes: ModeNames = Field(
        default=ModeNames(), description="What the agent calls the modes `plan`, `edit`, `ask`."
    )
    auth_method: str | None = Field(
        default=None, description="The method of authentication, if the agent demands one."
    )
    own_config_dir: bool = Field(
        default=True,
        description="A configuration folder per run where the agent has one, if a key is set; without a key "
        "your login is used.",
    )
    start_timeout: float = Field(
        default=120.0, gt=0, description="Seconds the agent may take to answer before the prompt is sent."
    )
    retry_grace: float = Field(
        default=120.0,
        ge=0,
        description="Seconds the agent may try again by itself while its service refuses; then it is ended.",
    )
    end_grace: float = Field(
        default=2.0, gt=0, description="Seconds between the ways to end the agent after its turn."
    )


class AcpAgent:
    """Runs an agent through the driver, one process per launch."""

    Options = AcpOptions

    def __init__(
        self, name: str, profile: Profile, options: AcpOptions, processes: Processes, redactor: Redactor
    ) -> None:
        self.name = name
        self._profile, self._options = profile, options
        self._processes, self._redactor = processes, redactor
        given = options.modes.model_dump(exclude_none=True)
        self._modes = profile.modes.model_copy(update=given)
        self.can = Capabilities(
            plan_mode=self._modes.plan is not None,
            ask_mode=self._modes.ask is not None,
            follow_up=True,
            streams=True,
            reports_usage=profile.reports_usage,
            reports_cost=profile.reports_cost,
        )
        self._known: Examined | None = None

    def check(self) -> list[Problem]:
        """Whether the program is there and is what it should be; a missing login shows when it is used."""
        return list(self._examined().problems)

    def installation(self) -> Installation:
        """Where the program is, in which version, and which key it has; found out once."""
        return self._examined().installation

    async def run(self, job: Job) -> AsyncGenerator[Event, None]:
        """Have the driver carry the job and report what it prints."""
        shared, scratch = self._processes.shared(self.name), self._processes.scratch(job.token)
        lines = AcpLines(self.name, self._profile, job.mode, used_before(shared, scratch, job.session))
        items = run_local(self._processes, self._redactor, job.token, self._launch(job, shared), lines.read)
        async with aclosing(items):
            async for item in items:
                if isinstance(item, Ended):
                    for event in lines.pending():
                        yield event
                    outcome = lines.outcome(item, time.time())
                    remember(shared, outcome.session, lines.total)
                    last = ended_event(item, outcome)
                    yield replace(last, data={**last.data, **lines.facts()})
                elif item.type is EventType.AGENT_STARTED:
                    yield replace(item, data={"argv0": self._argv()[0]})
                else:
                    yield item

    def forget(self, token: str) -> None:
        """Drop what was kept for an adoption."""
        self._processes.forget(token)

    def _launch(self, job: Job, shared: Path) -> Command:
        folder = shared / "config"
        for file in self._profile.files:
            place = folder / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(place, file.text.encode())
        env = environment(job, self._passed(), self._variables(job, folder))
        stdin = json.dumps({**self._document(job), "not_before": self._not_before(job, shared)}).encode()
        argv = tuple(part_command("--segue-acp", "segue.agents.acp.child"))
        return Command(argv, job.workspace, env, stdin, job.limits)

    def _not_before(self, job: Job, shared: Path) -> float:
        """When the session may be gone on with; notes this launch for the next one."""
        if not self._profile.one_launch_a_minute:
            return 0.0
        noted = shared / "launched"
        last = noted.stat().st_mtime if job.session and noted.exists() else 0.0
        noted.touch()
        return (last // 60 + 1) * 60

    def _document(self, job: Job) -> dict[str, object]:
        """What the driver is told."""
        profile, options = self._profile, self._options
        policies = profile.permissions.model_dump() | (
            {"edit": options.permissions} if options.permissions else {}
        )
        by_option = job.model if not (profile.model.args or profile.model.env) else None
        return {
            "argv": [*self._argv(), *self._model_arguments(job.model), *options.extra_args],
            "cwd": str(job.workspace),
            "client": {"name": "segue", "title": "Segue", "version": __version__},
            "session": job.session,
            "mode": {"name": getattr(self._modes, job.mode.value), "option": profile.mode_option},
            "model": {"name": by_option, "option": profile.model.option},
            "policy": policies[job.mode.value],
            "auth_method": options.auth_method or profile.auth_method,
            "answers": profile.answers,
            "plan_from": profile.plan_from if job.mode is Mode.PLAN else None,
            "prompt": job.prompt.text,
            "retry_text": profile.retry_text,
            "retry_grace": options.retry_grace,
            "start_timeout": options.start_timeout,
            "end_grace": options.end_grace,
        }

    def _argv(self) -> list[str]:
        program = self._program() or self._options.agent_cmd or self._profile.argv[0]
        return [program, *self._profile.argv[1:]]

    def _model_arguments(self, model: str | None) -> list[str]:
        return [part.replace("{model}", model) for part in self._profile.model.args] if model else []

    def _variables(self, job: Job, folder: Path) -> dict[str, str]:
        profile = self._profile
        own = profile.own_env if self._options.own_config_dir and self._key() else {}
        if own or profile.files:
            folder.mkdir(parents=True, exist_ok=True)
        told = {profile.model.env: job.model} if profile.model.env and job.model else {}
        given = profile.env | own | (profile.read_env if job.mode is not Mode.EDIT else {})
        filled = {name: value.replace("{folder}", str(folder)) for name, value in given.items()}
        return {**filled, **told, **self._options.env}

    def _passed(self) -> list[str]:
        simulated = (name for name in os.environ if name.startswith(_SIM_PREFIX))
        return [*self._profile.pass_env, *self._profile.login_env, *self._options.pass_env, *simulated]

    def _key(self) -> str | None:
        return key_set(self._profile.login_env, self._passed())

    def _names(self) -> list[str]:
        given = self._options.agent_cmd
        return [given] if given else [self._profile.argv[0], *self._profile.also_called]

    def _program(self) -> str | None:
        path = child_environment(self._passed()).get("PATH")
        found = (shutil.which(name, path=path) for name in self._names())
        return next((program for program in found if program), None)

    def _examined(self) -> Examined:
        if self._known is None:
            self._known = self._examine()
        return self._known

    def _examine(self) -> Examined:
        profile, program = self._profile, self._program()
        title = profile.title or self.name
        install = f"Install it: {profile.install} — or set" if profile.install else "Set"
        fix = f"{install} agents.{self.name}.agent_cmd to its path."
        env = child_environment(self._passed(), dict(self._options.env))
        if program is None:
            missing = not_found(title, self._names(), env)
            return Examined(problems=(Problem(missing, fix, ToolMissing.exit_code),))
        login = self._key() or "not known"
        if profile.version is None:
            return Examined(Installation(program, login=login))
        answer = probe([program, "--version"], PROBE_SECONDS, env)
        said = "" if answer is None else answer.out.decode("utf-8", "replace").strip()
        if re.fullmatch(profile.version, said):
            return Examined(Installation(program, (version_in(said) or "").rstrip(".") or None, login))
        told = repr(said[:80]) if said else "nothing"
        message = f"{program} is not {title}: asked for its version, it said {told}."
        return Examined(Installation(program), (Problem(message, fix, ToolMissing.exit_code),))


@dataclass(frozen=True, slots=True)
class AcpKind:
    """Stands where other agents have their class: makes an AcpAgent with a profile."""

    name: str
    profile: Profile
    Options: ClassVar[type[AcpOptions]] = AcpOptions

    def __call__(self, options: AcpOptions, processes: Processes, redactor: Redactor) -> AcpAgent:
        """The agent."""
        return AcpAgent(self.name, self.profile, options, processes, redactor)


GEMINI = AcpKind("gemini", acp_profiles.GEMINI)
COPILOT = AcpKind("copilot", acp_profiles.COPILOT)
OPENCODE = AcpKind("opencode", acp_profiles.OPENCODE)
QWEN = AcpKind("qwen", acp_profiles.QWEN)
VIBE = AcpKind("vibe", acp_profiles.VIBE)
CURSOR = AcpKind("cursor-acp", acp_profiles.CURSOR_ACP)
