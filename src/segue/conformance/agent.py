"""Check that an agent keeps the promises of `segue.ports.Agent`; run this on your own agents too.

def test_my_agent() -> None:
    check_agent(lambda services: MyAgent(MyOptions(), services))
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
from functools import partial
from pathlib import Path

from segue.domain.events import AgentEnded, AgentStarted, Event, event_data
from segue.domain.failure import FailureKind
from segue.domain.job import Job, Limits, Mode
from segue.domain.outcome import Outcome
from segue.domain.prompt import Prompt
from segue.domain.task import Task
from segue.ports import Agent
from segue.prompts.task import execute_prompt
from segue.system.process.processes import Processes, capture
from segue.system.redact import Redactor
from segue.system.services import Services

MakeAgent = Callable[[Services], Agent]
_GIT = ("git", "-c", "user.name=Conformance", "-c", "user.email=conformance@localhost")
_PATIENCE = 20.0


def check_agent(
    make: MakeAgent,
    prompt: Prompt | None = None,
    hangs: MakeAgent | None = None,
    limits: Limits | None = None,
) -> None:
    """Raise AssertionError with every promise that the agent breaks.

    `make` builds the agent. In a throwaway repository it is asked to write a file, or for what `prompt` says.
    `hangs` builds one that never ends by itself, if there is one: it must be stopped when its time is up.
    `limits` are those of each launch.
    """
    task = Task("1", "Write hello.txt", "Write a file hello.txt that contains a greeting.")
    prompt = prompt or execute_prompt(task, "")
    broken = asyncio.run(_broken_promises(make, prompt, hangs, limits or Limits(wall=120, idle=120, grace=1)))
    if broken:
        raise AssertionError("The agent breaks its promises:\n" + "\n".join(f"- {line}" for line in broken))


@dataclass(frozen=True, slots=True)
class _Trial:
    """The agents and the job that every check uses."""

    agent: Agent
    hanging: Agent | None
    repo: Path
    prompt: Prompt
    limits: Limits

    def job(self, mode: Mode = Mode.EDIT) -> Job:
        labels = {"run": "conformance", "task": "1", "phase": "execute", "attempt": "1"}
        return Job(uuid.uuid4().hex, self.prompt, self.repo, mode, limits=self.limits, labels=labels)


async def _broken_promises(
    make: MakeAgent, prompt: Prompt, hangs: MakeAgent | None, limits: Limits
) -> list[str]:
    broken = []
    with tempfile.TemporaryDirectory(prefix="segue-conformance-") as folder:
        repo = Path(folder) / "repo"
        await _make_repository(repo)
        async with Processes(Path(folder) / "run") as processes:
            services = Services(repo, Path(folder) / "state", processes, Redactor([]))
            trial = _Trial(make(services), hangs(services) if hangs else None, repo, prompt, limits)
            for check in _CHECKS:
                await _reset(repo)
                try:
                    await check(trial)
                except AssertionError as error:
                    broken.append(f"{(check.__doc__ or '').rstrip('.')}: {error}")
    return broken


async def _declares(trial: _Trial) -> None:
    """It has a name and declares what it can do."""
    assert trial.agent.name, "its name is empty"
    for field in fields(trial.agent.can):
        value = getattr(trial.agent.can, field.name)
        assert isinstance(value, bool), f"can.{field.name} is {value!r}, not a boolean"


async def _is_ready(trial: _Trial) -> None:
    """check() finds no problem where the agent works."""
    problems = trial.agent.check()
    assert not problems, "; ".join(problem.message for problem in problems)


async def _knows_itself(trial: _Trial) -> None:
    """installation() returns the same texts each time and names a program that exists."""
    found = trial.agent.installation()
    for field in fields(found):
        value = getattr(found, field.name)
        assert value is None or isinstance(value, str), f"{field.name} is {value!r}, not a string"
    assert found.program is None or Path(found.program).is_file(), f"{found.program} does not exist"
    assert trial.agent.installation() == found, "it returns something else the second time"


async def _reports(trial: _Trial) -> None:
    """A run yields AgentStarted first, then events of agents, and exactly one Outcome, as the last item."""
    events, outcome = _split(await _run(trial.agent, trial.job()))
    assert events, "it yielded no events"
    assert isinstance(events[0], AgentStarted), f"its first event is {events[0].type}"
    assert outcome.failure is None, f"it failed: {outcome.failure}"
    _assert_json("facts", lambda: dict(outcome.facts))
    for event in events:
        is_own = event.type.startswith("agent.") and not isinstance(event, AgentEnded)
        assert is_own, f"{event.type} is not an event for agents to yield"
        _assert_json(event.type, partial(event_data, event))


async def _edits(trial: _Trial) -> None:
    """An agent that declares edits changes the workspace, or pushes a branch if it works elsewhere."""
    if not trial.agent.can.edits:
        return
    _events, outcome = _split(await _run(trial.agent, trial.job()))
    if trial.agent.can.cloud:
        assert outcome.branches, "it reports no branch"
    else:
        assert await _read_state(trial.repo) != await _read_start(trial.repo), "nothing has changed"


async def _adopts(trial: _Trial) -> None:
    """A second call with the same token adopts the first launch and returns the same outcome."""
    job = trial.job()
    _events, first = _split(await _run(trial.agent, job))
    await _reset(trial.repo)
    before = await _read_state(trial.repo)
    _events, second = _split(await _run(trial.agent, job))
    assert await _read_state(trial.repo) == before, "the agent worked a second time"
    assert _make_comparable(first) == _make_comparable(second), f"first {first}, then {second}"
    trial.agent.forget(job.token)
    trial.agent.forget(job.token)


async def _ends_when_closed(trial: _Trial) -> None:
    """Closing the iterator early ends everything it started."""
    job = trial.job()
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
        await _wait_until(lambda: not _find_processes(job.token), "its processes are still running")


async def _changes_nothing(trial: _Trial) -> None:
    """Plan and ask mode, if declared, answer and change nothing."""
    can = trial.agent.can
    for mode, declared in ((Mode.PLAN, can.plan_mode), (Mode.ASK, can.ask_mode)):
        if declared:
            before = await _read_state(trial.repo)
            _events, outcome = _split(await _run(trial.agent, trial.job(mode)))
            assert outcome.failure is None, f"{mode} mode failed: {outcome.failure}"
            assert outcome.text, f"{mode} mode gave no text"
            assert await _read_state(trial.repo) == before, f"{mode} mode changed the repository"


async def _times_out(trial: _Trial) -> None:
    """A launch that exceeds its time limit is stopped and fails with a timeout."""
    if trial.hanging:
        job = replace(trial.job(), limits=replace(trial.limits, wall=1.0))
        _events, outcome = _split(await _run(trial.hanging, job))
        assert outcome.failure, "it reports success"
        assert outcome.failure.kind is FailureKind.TIMEOUT, f"the failure is {outcome.failure.kind}"


_CHECKS: tuple[Callable[[_Trial], Awaitable[None]], ...] = (
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


async def _run(agent: Agent, job: Job) -> list[Event | Outcome]:
    async with aclosing(agent.run(job)) as items:
        return [item async for item in items]


def _split(items: list[Event | Outcome]) -> tuple[list[Event], Outcome]:
    """Return the events and the outcome, which must be the last item."""
    outcomes = [item for item in items if isinstance(item, Outcome)]
    assert len(outcomes) == 1, f"it yielded {len(outcomes)} outcomes"
    assert items[-1] is outcomes[0], "its outcome is not the last item"
    events = [item for item in items if isinstance(item, Event)]
    assert len(events) == len(items) - 1, "it yielded something that is neither an event nor an outcome"
    return events, outcomes[0]


def _make_comparable(outcome: Outcome) -> Outcome:
    """Return the outcome without what depends on when it was read, and by whom."""
    failure = replace(outcome.failure, until=None) if outcome.failure else None
    return replace(outcome, failure=failure, duration=0.0, facts={})


def _assert_json(what: str, read: Callable[[], object]) -> None:
    try:
        json.dumps(read(), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the data of {what} is not JSON: {error}") from error


async def _wait_until(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, complaint
        await asyncio.sleep(0.02)


def _find_processes(token: str) -> list[int]:
    """Return the running processes that have the job's marker in their environment."""
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
    (repo / "README.md").write_text("A throwaway repository.\n")
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
