"""Bad input, the same for every local agent: each ends in a clear message, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from segue.agents.claude.agent import ClaudeAgent, ClaudeOptions
from segue.agents.codex.agent import CodexAgent, CodexOptions
from segue.agents.command import CommandAgent, CommandOptions
from segue.agents.cursor.agent import CursorAgent, CursorOptions
from segue.domain.job import Job, Prompt
from segue.domain.outcome import Failure, FailureKind
from segue.ports import Agent
from segue.system.process.processes import Processes
from segue.system.services import Services
from tests.agents.items import Items, lend, outcome, run_to_end
from tests.agents.stand_in import LIMITS, PROMPT, StandIn

NASTY = 'it\'s a "wörk" folder; $HOME `x` 雪'


@dataclass(frozen=True)
class Kind:
    """How one of the agents is made, and what its program prints when all goes well."""

    name: str
    version: str
    make: Callable[[Services, str | None], Agent]
    lines: tuple[dict[str, Any], ...] = ()
    key: str = ""
    unknown_option: str = "error: unknown option '--new'"


KINDS = [
    Kind(
        "claude",
        "2.1.325 (Claude Code)",
        lambda services, program: ClaudeAgent(ClaudeOptions(agent_cmd=program), services),
        ({"type": "result", "subtype": "success", "is_error": False, "result": "All done."},),
        "ANTHROPIC_API_KEY",
    ),
    Kind(
        "codex",
        "codex-cli 0.166.0",
        lambda services, program: CodexAgent(CodexOptions(agent_cmd=program), services),
        (
            {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "All done."}},
            {"type": "turn.completed", "usage": {}},
        ),
        "CODEX_API_KEY",
        "error: unexpected argument '--new' found",
    ),
    Kind(
        "cursor-agent",
        "2026.07.01-abcdef0",
        lambda services, program: CursorAgent(CursorOptions(agent_cmd=program), services),
        ({"type": "result", "subtype": "success", "is_error": False, "result": "All done."},),
        "CURSOR_API_KEY",
    ),
    Kind(
        "my-agent",
        "any",
        lambda services, program: CommandAgent(CommandOptions(argv=[program or "my-agent"]), services),
    ),
]
READERS = [kind for kind in KINDS if kind.lines]


@dataclass(frozen=True)
class Bench:
    """One agent with a stand-in for its program."""

    kind: Kind
    stand_in: StandIn

    def agent(self, services: Services, program: str | None = None) -> Agent:
        return self.kind.make(services, program)

    def run(self, prompt: Prompt = PROMPT, program: str | None = None) -> Items:
        root = self.stand_in.root
        job = Job("token", prompt, root / "repo", limits=LIMITS)

        async def collect() -> Items:
            async with Processes(root / "run") as processes:
                return await run_to_end(self.agent(lend(processes), program), job)

        return asyncio.run(collect())

    def failure(self, program: str | None = None) -> Failure:
        found = outcome(self.run(program=program)).failure
        assert found is not None, "it is taken for a success"
        return found

    def problem(self, program: str | None = None) -> str:
        (problem,) = self.agent(lend(Processes(self.stand_in.root / "run")), program).check()
        assert problem.exit_code == 5
        assert problem.fix
        return problem.message


def bench(kind: Kind, root: Path, environ: pytest.MonkeyPatch) -> Bench:
    stand_in = StandIn.make(root, environ, kind.name, kind.version)
    stand_in.says(kind.lines)
    environ.delenv("CURSOR_API_KEY", raising=False)
    if kind.key:
        environ.setenv(kind.key, "key-0123456789abcdef")
    return Bench(kind, stand_in)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def any_agent(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Each agent in turn, its program on PATH."""
    return bench(request.param, tmp_path, monkeypatch)


@pytest.fixture(params=READERS, ids=lambda kind: kind.name)
def reader(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Each agent that reads JSON lines."""
    return bench(request.param, tmp_path, monkeypatch)


def test_the_program_is_missing(any_agent: Bench) -> None:
    missing = str(any_agent.stand_in.root / "nowhere" / any_agent.kind.name)
    assert "was not found" in any_agent.problem(missing)
    failure = any_agent.failure(missing)
    assert failure.kind is FailureKind.NOT_STARTED
    assert missing in failure.message


def test_the_program_is_no_program(any_agent: Bench) -> None:
    Path(any_agent.stand_in.program).write_bytes(b"\x7fELF but not really")
    failure = any_agent.failure()
    assert failure.kind is FailureKind.NOT_STARTED
    assert "Exec format error" in failure.message
    if any_agent.kind in READERS:
        assert "it said nothing" in any_agent.problem()


def test_a_different_program_of_the_same_name(reader: Bench) -> None:
    reader.stand_in.says([], version="GNU something 4.2")
    message = reader.problem()
    assert reader.stand_in.program in message
    assert "GNU something 4.2" in message


def test_a_version_that_does_not_know_an_option(reader: Bench) -> None:
    reader.stand_in.says([], stderr=reader.kind.unknown_option, code=2)
    failure = reader.failure()
    assert failure.kind is FailureKind.NOT_STARTED
    assert reader.kind.unknown_option in failure.message


def test_paths_with_spaces_quotes_and_other_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root := tmp_path / NASTY).mkdir()
    strange = bench(KINDS[1], root, monkeypatch)
    strange.stand_in.says(KINDS[1].lines, writes="mädé by 'it'.txt")
    assert outcome(strange.run(program=strange.stand_in.program)).failure is None
    assert (root / "repo" / "mädé by 'it'.txt").read_text() == "x"
