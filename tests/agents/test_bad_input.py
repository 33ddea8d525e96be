"""Bad input, the same for every local agent: each ends in a clear message, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from segue.agents.claude.agent import ClaudeAgent, ClaudeOptions
from segue.agents.codex.agent import CodexAgent, CodexOptions
from segue.agents.command import CommandAgent, CommandOptions
from segue.agents.cursor.agent import CursorAgent, CursorOptions
from segue.agents.scripted.agent import ScriptedAgent, ScriptedOptions
from segue.domain.events import AgentRaw
from segue.domain.job import Job, Prompt
from segue.domain.outcome import Failure, FailureKind
from segue.ports import Agent
from segue.prompts.task import try_prompt
from segue.system.process.processes import Processes
from segue.system.services import Services
from tests.agents.items import Items, lend, of, outcome, run_to_end
from tests.agents.stand_in import LIMITS, PROMPT, StandIn
from tests.cli.place import DEADLINE, Place

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
    news: tuple[dict[str, Any], ...] = field(
        default=({"type": "news", "x": 1}, {"type": None}, {"no": "type"}, {"type": ["odd"]})
    )


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


def test_the_program_cannot_be_executed(any_agent: Bench) -> None:
    program = Path(any_agent.stand_in.program)
    program.chmod(0o644)
    assert "cannot be executed" in any_agent.problem(str(program))
    assert any_agent.failure(str(program)).kind is FailureKind.NOT_STARTED


def test_a_file_on_the_path_cannot_be_executed(reader: Bench) -> None:
    Path(reader.stand_in.program).chmod(0o644)
    reader.stand_in.environ.setenv("PATH", str(reader.stand_in.root / "bin"))
    assert f"{reader.stand_in.program} cannot be executed" in reader.problem()


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


def test_events_of_new_shapes_are_kept_and_counted(reader: Bench) -> None:
    reader.stand_in.says([*reader.kind.news, *reader.kind.lines])
    events = reader.run()
    found = outcome(events)
    assert (found.failure, found.text) == (None, "All done.")
    assert outcome(events).facts["unknown_lines"] == len(reader.kind.news)
    kept = [raw.line for raw in of(events, AgentRaw) if raw.line]
    assert [line for line in reader.kind.news if line not in kept] == []


def test_known_events_that_have_lost_their_shape(reader: Bench) -> None:
    names = ("assistant", "user", "system", "tool_call", "item.completed", "thread.started", "error")
    values: list[Any] = [None, 7, [], "x", {"content": 3}]
    fields = ("message", "item", "tool_call", "thread_id")
    odd = [{"type": name, **dict.fromkeys(fields, value)} for name in names for value in values]
    reader.stand_in.says([*odd, *reader.kind.lines])
    assert outcome(reader.run()).failure is None


@pytest.mark.quick("my-agent")
def test_a_prompt_of_ten_megabytes(any_agent: Bench) -> None:
    text = "Do this. Größe\n" * 640_000
    assert len(text.encode()) > 10_000_000
    assert outcome(any_agent.run(try_prompt(text))).failure is None
    (call,) = any_agent.stand_in.calls()
    assert call["stdin"] == text
    assert sum(map(len, call["argv"])) < 10_000


@pytest.mark.quick("codex")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_paths_with_spaces_quotes_and_other_letters(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / NASTY
    root.mkdir()
    strange = bench(kind, root, monkeypatch)
    strange.stand_in.says(kind.lines, writes="mädé by 'it'.txt")
    assert outcome(strange.run(program=strange.stand_in.program)).failure is None
    assert (root / "repo" / "mädé by 'it'.txt").read_text() == "x"


@pytest.mark.quick("cursor-agent")
def test_no_home(any_agent: Bench) -> None:
    any_agent.stand_in.environ.delenv("HOME")
    assert any_agent.agent(lend(Processes(any_agent.stand_in.root / "run"))).check() == []
    assert outcome(any_agent.run()).failure is None
    (call,) = any_agent.stand_in.calls()
    assert "HOME" not in call["env"]


def test_the_scripted_agent_meets_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    workspace = tmp_path / NASTY
    workspace.mkdir()
    job = Job("token", try_prompt("x" * 10_000_000), workspace, limits=LIMITS, labels={"task": "1"})

    async def collect() -> Items:
        async with Processes(tmp_path / "run") as processes:
            agent = ScriptedAgent(ScriptedOptions(), lend(processes))
            return await run_to_end(agent, job)

    assert outcome(asyncio.run(collect())).failure is None
    assert [path.name for path in workspace.rglob("*.md")] == ["task-1.md"]


def mounted(place: Place, mount: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run segue in a world of its own, in which something is mounted differently."""
    script = f'{mount} && exec "$@"'
    argv = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        *place.command(*args),
    ]
    return subprocess.run(
        argv, cwd=place.repo, env=place.env, capture_output=True, text=True, timeout=DEADLINE
    )


@pytest.fixture
def mounting(place: Place) -> Place:
    """Skips where nothing can be mounted: a folder that root cannot write to is made by a mount alone."""
    able = shutil.which("unshare") is not None and mounted(place, "mount -t tmpfs none /mnt", "--version")
    if not able or able.returncode != 0:
        pytest.skip("NOT TESTED: a read-only repository and a full disk need `unshare` and user namespaces")
    return place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A repository with a plan."""
    return Place.make(tmp_path)


@pytest.mark.thorough
def test_a_read_only_repository(mounting: Place) -> None:
    before = mounting.git("rev-parse", "HEAD")
    readonly = (
        f"mount --bind '{mounting.repo}' '{mounting.repo}' && mount -o remount,ro,bind '{mounting.repo}'"
    )
    done = mounted(mounting, f"{readonly} && cd '{mounting.repo}'", "run", "plan.md", "--agent", "scripted")
    assert done.returncode == 2, done.stderr
    assert "Cannot write to the repository" in done.stderr
    assert "Read-only file system" in done.stderr
    assert mounting.git("rev-parse", "HEAD") == before


@pytest.mark.thorough
@pytest.mark.parametrize("size", ["20k", "400k"])
def test_a_full_disk_while_trying(mounting: Place, size: str) -> None:
    full = mounting.root / "full"
    full.mkdir()
    noise = ["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"]
    mounting.env |= {"TMPDIR": str(full), "SEGUE_AGENTS__COMMAND__ARGV": json.dumps(noise)}
    done = mounted(mounting, f"mount -t tmpfs -o size={size} none '{full}'", "agent", "try", "command", "x")
    assert done.returncode not in (0, None)
    assert "No space left on device" in done.stderr
    assert "unexpected" not in done.stderr


@pytest.mark.thorough
def test_a_full_disk_while_a_run_works(mounting: Place) -> None:
    """What was done before is kept: with room again the run goes on."""
    full = mounting.root / "full"
    full.mkdir()
    noise = ["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo >> made"]
    mounting.env |= {"XDG_STATE_HOME": str(full), "SEGUE_AGENTS__COMMAND__ARGV": json.dumps(noise)}
    mounting.env["SEGUE_LIMITS__ATTEMPTS"] = "3"
    run = shlex.join(mounting.command("run", "plan.md", "--agent", "command"))
    first = f"mount -t tmpfs -o size=700k none '{full}' && {{ ! {run}; }}"
    done = mounted(mounting, f"{first} && mount -o remount,size=100m none '{full}'", "resume")
    assert "disk is full" in done.stderr
    assert "unexpected" not in done.stderr
    assert done.returncode == 0, done.stderr
    assert len(mounting.subjects()) == 3


def test_nobody_knows_where_home_is(place: Place) -> None:
    env = {name: value for name, value in place.env.items() if name not in ("HOME", "USER", "LOGNAME")}
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        env.pop(name)
    nobody = ["unshare", "--user", "--map-user=54321"]
    if not shutil.which("unshare") or subprocess.run([*nobody, "true"], capture_output=True).returncode != 0:
        pytest.skip("NOT TESTED: a user without a home folder needs `unshare` and user namespaces")
    argv = [*nobody, *place.command("agent", "list")]
    done = subprocess.run(argv, cwd=place.repo, env=env, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 2, done.stderr
    assert "There is no home folder" in done.stderr
    assert "Set HOME" in done.stderr
