"""Does an agent keep the promises of its socket? Run this on every agent, also on your own.

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
    """Raise AssertionError with every promise that is broken.

    `make` builds an agent that does a small task; `hangs` one that never ends by itself, if there is one.
    The agents work in a throw-away repository, for which `limits` hold.
    """
    broken = asyncio.run(_broken_promises(make, prompt, hangs, limits or Limits(wall=120, idle=120, grace=1)))
    if broken:
        raise AssertionError("the agent breaks its promises:\n" + "\n".join(f"- {line}" for line in broken))


@dataclass(frozen=True, slots=True)
class _Trial:
    """What every check needs."""

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
            trial = _Trial(make(processes), hangs(processes) if hangs else None, repo, prompt, limits)
            for check in _CHECKS:
                await _reset(repo)
                try:
                    await check(trial)
                except AssertionError as error:
                    broken.append(f"{(check.__doc__ or '').rstrip('.')}: {error}")
    return broken


async def _declares(trial: _Trial) -> None:
    """It says who it is and what it can do."""
    assert trial.agent.name, "its name is empty"
    for field in fields(trial.agent.can):
        value = getattr(trial.agent.can, field.name)
        assert isinstance(value, bool), f"can.{field.name} is {value!r}, not a boolean"


async def _is_ready(trial: _Trial) -> None:
    """check() finds no problem where the agent works."""
    problems = trial.agent.check()
    assert not problems, "; ".join(problem.message for problem in problems)


async def _knows_itself(trial: _Trial) -> None:
    """installation() says the same each time, in texts, and names a program that is there."""
    found = trial.agent.installation()
    for field in fields(found):
        value = getattr(found, field.name)
        assert value is None or isinstance(value, str), f"{field.name} is {value!r}, not a text"
    assert found.program is None or Path(found.program).is_file(), f"there is no {found.program}"
    assert trial.agent.installation() == found, "it says something else when it is asked again"


async def _reports(trial: _Trial) -> None:
    """A run begins with agent.started and ends with its only outcome."""
    events = await _run(trial.agent, trial.job())
    assert events, "it yielded nothing"
    assert events[0].type is EventType.AGENT_STARTED, f"its first event is {events[0].type}"
    outcomes = [event.outcome for event in events if event.outcome]
    assert len(outcomes) == 1, f"{len(outcomes)} events carry an outcome"
    assert events[-1].outcome, "its last event carries no outcome"
    assert outcomes[0].failure is None, f"it failed: {outcomes[0].failure}"
    for event in events:
        assert event.type.startswith("agent."), f"{event.type} is not an agent's event"
        _assert_serialisable(event)


async def _edits(trial: _Trial) -> None:
    """An agent that declares edits changes the workspace, or pushes a branch if it works elsewhere."""
    if not trial.agent.can.edits:
        return
    outcome = _outcome(await _run(trial.agent, trial.job()))
    if trial.agent.can.cloud:
        assert outcome.branches, "it names no branch"
    else:
        assert await _state(trial.repo) != await _clean_state(trial.repo), "nothing has changed"


async def _adopts(trial: _Trial) -> None:
    """The same token gives the same outcome again, without a second launch."""
    job = trial.job()
    first = _outcome(await _run(trial.agent, job))
    await _reset(trial.repo)
    before = await _state(trial.repo)
    second = _outcome(await _run(trial.agent, job))
    assert await _state(trial.repo) == before, "the agent worked a second time"
    assert _comparable(first) == _comparable(second), f"first {first}, then {second}"
    trial.agent.forget(job.token)
    trial.agent.forget(job.token)


async def _ends_when_closed(trial: _Trial) -> None:
    """Closing the iterator early leaves no process behind."""
    job = trial.job()
    agent = trial.hanging or trial.agent
    here = sys.platform == "linux" and not agent.can.cloud
    async with aclosing(agent.run(job)) as events:
        await anext(events)
        more = asyncio.ensure_future(anext(events, None))
        if trial.hanging and here:
            await _until(lambda: bool(_marked(job.token)), "the agent never had a process")
        more.cancel()
        await asyncio.wait([more])
    if here:
        await _until(lambda: not _marked(job.token), "its processes are still there")


async def _changes_nothing(trial: _Trial) -> None:
    """Plan and ask mode change nothing, if declared."""
    can = trial.agent.can
    for mode, declared in ((Mode.PLAN, can.plan_mode), (Mode.ASK, can.ask_mode)):
        if declared:
            before = await _state(trial.repo)
            outcome = _outcome(await _run(trial.agent, trial.job(mode)))
            assert outcome.failure is None, f"{mode} mode failed: {outcome.failure}"
            assert outcome.text, f"{mode} mode gave no text"
            assert await _state(trial.repo) == before, f"{mode} mode changed the repository"


async def _times_out(trial: _Trial) -> None:
    """A launch that outlives its time limit ends in a timeout."""
    if trial.hanging:
        job = replace(trial.job(), limits=replace(trial.limits, wall=1.0))
        outcome = _outcome(await _run(trial.hanging, job))
        assert outcome.failure, "it is said to have succeeded"
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


async def _run(agent: Agent, job: Job) -> list[Event]:
    return [event async for event in agent.run(job)]


def _outcome(events: list[Event]) -> Outcome:
    outcome = events[-1].outcome if events else None
    assert outcome, "its last event carries no outcome"
    return outcome


def _comparable(outcome: Outcome) -> Outcome:
    """The outcome without what depends on when it was read: a reset time given as a duration."""
    failure = replace(outcome.failure, until=None) if outcome.failure else None
    return replace(outcome, failure=failure, duration=0.0)


def _assert_serialisable(event: Event) -> None:
    try:
        json.dumps(dict(event.data), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the data of {event.type} is no JSON: {error}") from error


async def _until(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, complaint
        await asyncio.sleep(0.02)


def _marked(token: str) -> list[int]:
    """The living processes that carry the job's marker."""
    marker = f"SEGUE_JOB={token}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue  # it ended meanwhile, or belongs to somebody else
    return found


async def _make_repository(repo: Path) -> None:
    repo.mkdir()
    (repo / "README.md").write_text("A throw-away repository.\n")
    await _git(repo, "init", "--quiet")
    await _git(repo, "add", "--all")
    await _git(repo, "commit", "--quiet", "--message", "Start")
    await _git(repo, "tag", "start")


async def _reset(repo: Path) -> None:
    await _git(repo, "reset", "--quiet", "--hard", "start")
    await _git(repo, "clean", "--quiet", "-ffdx")


async def _state(repo: Path) -> str:
    return await _git(repo, "rev-parse", "HEAD") + await _git(repo, "status", "--porcelain", "--ignored")


async def _clean_state(repo: Path) -> str:
    return await _git(repo, "rev-parse", "start")


async def _git(repo: Path, *arguments: str) -> str:
    done = await capture([*_GIT, *arguments], repo)
    if done.exit_code != 0:
        raise RuntimeError(f"git {arguments[0]}: {done.err.decode('utf-8', 'replace')}")
    return done.out.decode("utf-8", "replace")
