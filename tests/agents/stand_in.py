"""A stand-in for an installed program: says what it is told, and writes down how it was called."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from segue.agents.local.launch import ProcessEnd
from segue.domain.job import Job, Limits, Mode
from segue.domain.task import Task
from segue.ports import Agent
from segue.prompts.task import execute_prompt
from segue.system.process.processes import Exit, Processes
from segue.system.services import Services
from tests.agents.items import Items, lend, run_to_end
from tests.shebang import shebang

PROMPT = execute_prompt(Task("1", "Say hello", ""), "", nonce="test")
LIMITS = Limits(wall=60, idle=60, grace=0.3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
"""Any JSON value, also numbers that are none."""

_PROGRAM = """{shebang}
import json, os, sys, time
from pathlib import Path
here = Path({root!r})
told = json.loads((here / "told.json").read_text())
if sys.argv[1:] == ["--version"]:
    print(told["version"])
elif sys.argv[1:] in (["auth", "status", "--json"], ["login", "status"]):
    print(told["status"])
else:
    more = "--input-format" in sys.argv  # then stdin stays open for more
    stdin = json.loads(sys.stdin.readline())["message"]["content"] if more else sys.stdin.read()
    call = {{"argv": sys.argv[1:], "env": dict(os.environ), "stdin": stdin}}
    with (here / "calls").open("a") as log:
        log.write(json.dumps(call) + "\\n")
    if told["writes"] and not {{"plan", "dontAsk", "read-only"}} & set(sys.argv):
        with open(told["writes"], "a") as file:
            file.write("x")
    for line in told["lines"]:
        print(line, flush=True)
    print(told["stderr"], file=sys.stderr, flush=True)
    time.sleep(told["stay"])
    sys.exit(told["code"])
"""


@dataclass
class StandIn:
    """The program on a PATH of its own."""

    root: Path
    environ: pytest.MonkeyPatch

    @property
    def program(self) -> str:
        """Where it is."""
        return str(next((self.root / "bin").iterdir()))

    @classmethod
    def make(cls, root: Path, environ: pytest.MonkeyPatch, name: str, version: str) -> StandIn:
        for folder in ("bin", "home", "repo"):
            (root / folder).mkdir()
        program = root / "bin" / name
        program.write_text(_PROGRAM.format(shebang=shebang(), root=str(root)))
        program.chmod(0o755)
        for variable in [*os.environ]:
            if variable.startswith(("ANTHROPIC_", "CLAUDE_", "CODEX_", "OPENAI_", "IS_SANDBOX")):
                environ.delenv(variable)
        environ.setenv("HOME", str(root / "home"))
        environ.setenv("PATH", str(root / "bin"), prepend=os.pathsep)
        found = cls(root, environ)
        found.says([], version=version)
        return found

    def says(self, lines: Sequence[dict[str, Any]], **more: Any) -> None:
        """What it prints from now on, how it ends, and which file it writes where it may."""
        path = self.root / "told.json"
        told: dict[str, Any] = {"status": "", "writes": ""}
        told |= json.loads(path.read_text()) if path.exists() else {}
        told |= {"code": 0, "stay": 0, "stderr": "", "lines": [json.dumps(line) for line in lines], **more}
        path.write_text(json.dumps(told))

    def calls(self) -> list[dict[str, Any]]:
        log = self.root / "calls"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def run(
        self,
        make: Callable[[Services], Agent],
        mode: Mode = Mode.EDIT,
        token: str = "token",
        model: str | None = None,
        session: str | None = None,
    ) -> Items:
        job = Job(token, PROMPT, self.root / "repo", mode, model, session, limits=LIMITS)

        async def collect() -> Items:
            async with Processes(self.root / "run") as processes:
                return await run_to_end(make(lend(processes)), job)

        return asyncio.run(collect())


def ended(
    code: int | None = 0, signal: int | None = None, reason: str | None = None, err: str = ""
) -> ProcessEnd:
    return ProcessEnd(Exit(code, signal, reason, "", 1.0, False, 7), "", err)
