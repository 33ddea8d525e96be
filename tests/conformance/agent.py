"""Check that an agent keeps the promises of `segue.ports.Agent`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import fields, replace

from segue.domain.events import AgentEnded, AgentStarted, Event, event_data
from segue.domain.job import Job, Limits, Mode, Prompt
from segue.domain.outcome import FailureKind, Outcome
from segue.domain.task import Task
from segue.ports import Agent
from segue.prompts.task import execute_prompt
from segue.system.services import Services
from tests.conformance.trial import check_promises, describe_repository, expect_ready, git

MakeAgent = Callable[[Services], Agent]
_PATIENCE = 120.0


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
    asked = prompt or execute_prompt(task, "")
    usual = limits or Limits(wall=120, idle=120, grace=1)

    def begin(services: Services) -> _AgentTrial:
        hanging = hangs(services) if hangs else None
        return _AgentTrial(make(services), hanging, services.repo, asked, usual)

    check_promises("agent", begin, _PROMISES)


class _AgentTrial(Struct, frozen=True):
    """The agents and the job that every check uses."""

    agent: Agent
    hanging: Agent | None
    repo: Path
    prompt: Prompt
    limits: Limits

    def job(self, mode: Mode = Mode.EDIT) -> Job:
        labels = {"run": "conformance", "task": "1", "phase": "execute", "attempt": "1"}
        return Job(uuid.uuid4().hex, self.prompt, self.repo, mode, limits=self.limits, labels=labels)


async def _declares(trial: _AgentTrial) -> None:
    """It has a name, declares what it can do, and check() finds no problem where it works."""
    expect_ready(trial.agent)
    for field in fields(trial.agent.can):
        value = getattr(trial.agent.can, field.name)
        assert isinstance(value, bool), f"can.{field.name} is {value!r}, not a boolean"


async def _knows_itself(trial: _AgentTrial) -> None:
    """installation() returns the same texts each time and names a program that exists."""
    found = trial.agent.installation()
    for field in fields(found):
        value = getattr(found, field.name)
        assert value is None or isinstance(value, str), f"{field.name} is {value!r}, not a string"
    assert found.program is None or Path(found.program).is_file(), f"{found.program} does not exist"
    assert trial.agent.installation() == found, "it returns something else the second time"


async def _reports(trial: _AgentTrial) -> None:
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


async def _edits(trial: _AgentTrial) -> None:
    """An agent that declares edits changes the workspace, or pushes a branch if it works elsewhere."""
    if not trial.agent.can.edits:
        return
    before = await describe_repository(trial.repo)
    _events, outcome = _split(await _run(trial.agent, trial.job()))
    if trial.agent.can.cloud:
        assert outcome.branches, "it reports no branch"
    else:
        assert await describe_repository(trial.repo) != before, "nothing has changed"


async def _adopts(trial: _AgentTrial) -> None:
    """A second call with the same token adopts the first launch and returns the same outcome."""
    job = trial.job()
    _events, first = _split(await _run(trial.agent, job))
    await git(trial.repo, "reset", "--quiet", "--hard", "start")
    await git(trial.repo, "clean", "--quiet", "-ffdx")
    before = await describe_repository(trial.repo)
    _events, second = _split(await _run(trial.agent, job))
    assert await describe_repository(trial.repo) == before, "the agent worked a second time"
    assert _make_comparable(first) == _make_comparable(second), f"first {first}, then {second}"
    trial.agent.forget(job.token)
    trial.agent.forget(job.token)


async def _ends_when_closed(trial: _AgentTrial) -> None:
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


async def _changes_nothing(trial: _AgentTrial) -> None:
    """Plan and ask mode, if declared, answer and change nothing."""
    can = trial.agent.can
    for mode, declared in ((Mode.PLAN, can.plan_mode), (Mode.ASK, can.ask_mode)):
        if declared:
            before = await describe_repository(trial.repo)
            _events, outcome = _split(await _run(trial.agent, trial.job(mode)))
            assert outcome.failure is None, f"{mode} mode failed: {outcome.failure}"
            assert outcome.text, f"{mode} mode gave no text"
            assert await describe_repository(trial.repo) == before, f"{mode} mode changed the repository"


async def _times_out(trial: _AgentTrial) -> None:
    """A launch that exceeds its time limit is stopped and fails with a timeout."""
    if trial.hanging:
        job = replace(trial.job(), limits=replace(trial.limits, wall=1.0))
        _events, outcome = _split(await _run(trial.hanging, job))
        assert outcome.failure, "it reports success"
        assert outcome.failure.kind is FailureKind.TIMEOUT, f"the failure is {outcome.failure.kind}"


_PROMISES = (
    _declares,
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
