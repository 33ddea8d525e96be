"""A place where agents that speak ACP work: stand-ins on a PATH, their script, a folder to work in."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from segue.agents.acp import agent as acp
from segue.agents.acp.agent import AcpAgent, AcpKind, AcpOptions
from segue.domain.job import Job, Limits, Mode, Prompt
from segue.domain.options import read_options
from segue.ports import Agent
from segue.system.process.processes import Processes
from segue.system.services import Services
from tests.agents.items import Items, is_at_work, lend
from tests.agents.stand_in import LIMITS, PROMPT
from tests.fakes.acp import read_log, write_programs

KINDS = {kind.name: kind for kind in (acp.GEMINI, acp.COPILOT, acp.OPENCODE, acp.QWEN)}


@dataclass
class Stage:
    """The stand-ins, their script and what they remember."""

    root: Path
    environ: pytest.MonkeyPatch
    waits: bool = False

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    def script(self, text: str) -> None:
        (self.root / "bin" / "acp.toml").write_text(text)

    def faults(self, *names: str) -> None:
        self.script(f"faults = {json.dumps(names)}\n")

    def log(self, kind: str) -> list[dict[str, Any]]:
        return read_log(self.root / "bin" / "acp.toml", kind)

    def making(self, kind: AcpKind, **options: Any) -> Callable[[Services], Agent]:
        return lambda services: self.agent(kind, services, **options)

    def agent(self, kind: AcpKind, services: Services, **options: Any) -> AcpAgent:
        given = read_options(AcpOptions, {"end_grace": 0.2, **options})
        # The stand-ins do not lose what the real Gemini would, so nobody has to wait.
        profile = structs.replace(kind.profile, one_launch_a_minute=self.waits)
        return AcpKind(kind.name, profile)(given, services)

    def run(
        self,
        kind: AcpKind = acp.GEMINI,
        mode: Mode = Mode.EDIT,
        token: str = "token",
        prompt: Prompt = PROMPT,
        limits: Limits = LIMITS,
        model: str | None = None,
        session: str | None = None,
        **options: Any,
    ) -> Items:
        labels = {"run": "r", "task": "1", "phase": "execute", "attempt": "1"}
        job = Job(token, prompt, self.repo, mode, model, session, limits=limits, labels=labels)

        async def collect() -> Items:
            async with Processes(self.root / "run") as processes:
                return [event async for event in self.agent(kind, lend(processes), **options).run(job)]

        return asyncio.run(collect())

    def at_work(self) -> bool:
        """Whether a process of a launch lives."""
        return is_at_work(f"SEGUE_JOB_FOLDER={self.root}/")


def make_stage(root: Path, environ: pytest.MonkeyPatch) -> Stage:
    for folder in ("repo", "home", "bin"):
        (root / folder).mkdir()
    write_programs(root / "bin")
    foreign = (
        "GEMINI_",
        "GOOGLE_",
        "COPILOT_",
        "GH_",
        "GITHUB_",
        "OPENAI_",
        "QWEN_",
    )
    for name in [*os.environ]:
        if name.startswith(foreign):
            environ.delenv(name)
    environ.setenv("HOME", str(root / "home"))
    environ.setenv("PATH", str(root / "bin"), prepend=os.pathsep)
    return Stage(root, environ)
