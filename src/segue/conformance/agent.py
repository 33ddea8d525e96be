"""Check that an agent keeps the promises of its socket. Run this on every agent, including your own.

def test_my_agent() -> None:
    prompt = execute_prompt(Task("1", "Write hello.txt", ""), "")
    check_agent(lambda processes: MyAgent(MyOptions(), processes, Redactor([])), prompt)
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, fields, replace
from pathlib import Path

from segue.domain.event import Event, EventType
from segue.domain.failure import FailureKind
from segue.domain.job import Job, Limits, Mode
from segue.domain.outcome import Outcome
from segue.domain.prompt import Prompt
from segue.ports import Agent
from segue.system.process.processes import Processes, capture

MakeAgent = Callable[[Processes], Agent]
_GIT = ("git", "-c", "user.name=Conformance", "-c", "user.email=conformance@localhost")
_PATIENCE = 20.0


def check_agent(
    make: MakeAgent, prompt: Prompt, hangs: MakeAgent | None = None, limits: Limits | None = None
) -> None:
    """Raise AssertionError with every broken promise.

    `make` returns an agent that does a small task; `hangs` one that never ends by itself, if there is one.
    The agents work in a temporary repository, within the given limits.
    """
    broken = asyncio.run(
        _find_broken_promises(make, prompt, hangs, limits or Limits(wall=120, idle=120, grace=1))
    )
    if broken:
        raise AssertionError("the agent breaks its promises:\n" + "\n".join(f"- {line}" for line in broken))


@dataclass(frozen=True, slots=True)
class ConformanceTrial:
    """The agents under test, and where they work."""

    agent: Agent
    hanging: Agent | None
    repo: Path
    prompt: Prompt
    limits: Limits

    def make_job(self, mode: Mode = Mode.EDIT) -> Job:
        labels = {"run": "conformance", "task": "1", "phase": "execute", "attempt": "1"}
        return Job(uuid.uuid4().hex, self.prompt, self.repo, mode, limits=self.limits, labels=labels)


async def _find_broken_promises(
    make: MakeAgent, prompt: Prompt, hangs: MakeAgent | None, limits: Limits
) -> list[str]:
    broken = []
    with tempfile.TemporaryDirectory(prefix="segue-conformance-") as folder:
        repo = Path(folder) / "repo"
        await _make_repository(repo)
        async with Processes(Path(folder) / "run") as processes:
            trial = ConformanceTrial(
                make(processes), hangs(processes) if hangs else None, repo, prompt, limits
            )
            for check in _CHECKS:
                await _reset(repo)
                try:
                    await check(trial)
                except AssertionError as error:
                    broken.append(f"{(check.__doc__ or '').rstrip('.')}: {error}")
    return broken


async def _declares(trial: ConformanceTrial) -> None:
    """It has a name and declares what it can do."""
    assert trial.agent.name, "its name is empty"
    for field in fields(trial.agent.can):
        value = getattr(trial.agent.can, field.name)
        assert isinstance(value, bool), f"can.{field.name} is {value!r}, not a boolean"


async def _is_ready(trial: ConformanceTrial) -> None:
    """check() finds no problem where the agent works."""
    problems = trial.agent.check()
    assert not problems, "; ".join(problem.message for problem in problems)


async def _knows_itself(trial: ConformanceTrial) -> None:
    """installation() returns the same texts each time, and names a program that exists."""
    found = trial.agent.installation()
    for field in fields(found):
        value = getattr(found, field.name)
        assert value is None or isinstance(value, str), f"{field.name} is {value!r}, not a string"
    assert found.program is None or Path(found.program).is_file(), f"{found.program} does not exist"
    assert trial.agent.installation() == found, "the second answer differs from the first"


async def _reports(trial: ConformanceTrial) -> None:
    """A run starts with agent.started and ends with its only outcome."""
    events = await _run(trial.agent, trial.make_job())
    assert events, "it yielded nothing"
    assert events[0].type is EventType.AGENT_STARTED, f"its first event is {events[0].type}"
    outcomes = [event.outcome for event in events if event.outcome]
    assert len(outcomes) == 1, f"{len(outcomes)} events have an outcome"
    assert events[-1].outcome, "its last event has no outcome"
    assert outcomes[0].failure is None, f"it failed: {outcomes[0].failure}"
    for event in events:
        assert event.type.startswith("agent."), f"{event.type} is not an agent's event"
        _assert_serialisable(event)


async def _edits(trial: ConformanceTrial) -> None:
    """An agent that declares edits changes the workspace, or pushes a branch if it works elsewhere."""
    if not trial.agent.can.edits:
        return
    outcome = _last_outcome(await _run(trial.agent, trial.make_job()))
    if trial.agent.can.cloud:
        assert outcome.branches, "it reports no branch"
    else:
        assert await _read_state(trial.repo) != await _read_start(trial.repo), "nothing has changed"


async def _adopts(trial: ConformanceTrial) -> None:
    """The same token returns the same outcome, without a second launch."""
    job = trial.make_job()
    first = _last_outcome(await _run(trial.agent, job))
    await _reset(trial.repo)
    before = await _read_state(trial.repo)
    second = _last_outcome(await _run(trial.agent, job))
    assert await _read_state(trial.repo) == before, "the agent worked a second time"
    assert _strip_times(first) == _strip_times(second), f"first {first}, then {second}"
    trial.agent.forget(job.token)
    trial.agent.forget(job.token)


async def _ends_when_closed(trial: ConformanceTrial) -> None:
    """Closing the iterator early leaves no process behind."""
    job = trial.make_job()
    agent = trial.hanging or trial.agent
    here = sys.platform == "linux" and not agent.can.cloud
    async with aclosing(agent.run(job)) as events:
        await anext(events)
        more = asyncio.ensure_future(anext(events, None))
        if trial.hanging and here:
            await _wait_until(lambda: bool(_find_processes(job.token)), "the agent never had a process")
        more.cancel()
        await asyncio.wait([more])
    if here:
        await _wait_until(lambda: not _find_processes(job.token), "its processes are still there")


async def _changes_nothing(trial: ConformanceTrial) -> None:
    """Plan and ask mode change nothing, if declared."""
    can = trial.agent.can
    for mode, declared in ((Mode.PLAN, can.plan_mode), (Mode.ASK, can.ask_mode)):
        if declared:
            before = await _read_state(trial.repo)
            outcome = _last_outcome(await _run(trial.agent, trial.make_job(mode)))
            assert outcome.failure is None, f"{mode} mode failed: {outcome.failure}"
            assert outcome.text, f"{mode} mode gave no text"
            assert await _read_state(trial.repo) == before, f"{mode} mode changed the repository"


async def _times_out(trial: ConformanceTrial) -> None:
    """A launch that exceeds its time limit ends with a timeout."""
    if trial.hanging:
        job = replace(trial.make_job(), limits=replace(trial.limits, wall=1.0))
        outcome = _last_outcome(await _run(trial.hanging, job))
        assert outcome.failure, "it reports success"
        assert outcome.failure.kind is FailureKind.TIMEOUT, f"the failure is {outcome.failure.kind}"


_CHECKS: tuple[Callable[[ConformanceTrial], Awaitable[None]], ...] = (
    _declares,
    _is_ready,
    _knows_itself,
    _reports,
    _edits,
    _adopts,
    _ends_when_closed,
    _changes_nothing,
    _times_out,
)


async def _run(agent: Agent, job: Job) -> list[Event]:
    return [event async for event in agent.run(job)]


def _last_outcome(events: list[Event]) -> Outcome:
    outcome = events[-1].outcome if events else None
    assert outcome, "its last event has no outcome"
    return outcome


def _strip_times(outcome: Outcome) -> Outcome:
    """Return the outcome without what depends on the time of reading."""
    failure = replace(outcome.failure, until=None) if outcome.failure else None
    return replace(outcome, failure=failure, duration=0.0)


def _assert_serialisable(event: Event) -> None:
    try:
        json.dumps(dict(event.data), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the data of {event.type} is not JSON: {error}") from error


async def _wait_until(condition: Callable[[], bool], message: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, message
        await asyncio.sleep(0.02)


def _find_processes(token: str) -> list[int]:
    """Return the running processes that have the job's marker."""
    marker = f"SEGUE_JOB={token}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue  # it has ended, or belongs to somebody else
    return found


async def _make_repository(repo: Path) -> None:
    repo.mkdir()
    (repo / "README.md").write_text("A temporary repository.\n")
    await _git(repo, "init", "--quiet")
    await _git(repo, "add", "--all")
    await _git(repo, "commit", "--quiet", "--message", "Start")
    await _git(repo, "tag", "start")


async def _reset(repo: Path) -> None:
    await _git(repo, "reset", "--quiet", "--hard", "start")
    await _git(repo, "clean", "--quiet", "-ffdx")


async def _read_state(repo: Path) -> str:
    return await _git(repo, "rev-parse", "HEAD") + await _git(repo, "status", "--porcelain", "--ignored")


async def _read_start(repo: Path) -> str:
    return await _git(repo, "rev-parse", "start")


async def _git(repo: Path, *arguments: str) -> str:
    done = await capture([*_GIT, *arguments], repo)
    if done.exit_code != 0:
        raise RuntimeError(f"git {arguments[0]}: {done.err.decode('utf-8', 'replace')}")
    return done.out.decode("utf-8", "replace")
