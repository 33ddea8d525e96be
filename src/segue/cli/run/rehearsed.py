"""What a rehearsal has shown: the tasks in order, what the checks say, and what a real run would launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import join
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from segue.cli.terminal.output import Printer, one_line
from segue.domain.amounts import format_count, list_some
from segue.domain.events import CheckRun
from segue.domain.proof import CheckResult, CheckState
from segue.runtime.first_run import find_agent, suggest_check
from segue.runtime.rehearsal import SIMULATED, Rehearsal
from segue.runtime.session import SessionEnd
from segue.system.reading import work_tree
from segue.view.load import load_view

if TYPE_CHECKING:
    from segue.runtime.doctor import AgentReport
    from segue.view.task import TaskView

_TITLE_CHARS = 60
_REASON_CHARS = 160
_MOST_NAMES = 5
_NOT_ENDED = ("pending", "running", "stopped")


class Rehearsed(Struct, frozen=True):
    """What is told of a rehearsal once it is gone."""

    rehearsal: Rehearsal
    ended: SessionEnd
    tasks: tuple[TaskView, ...]
    checks: tuple[CheckResult, ...]
    """What each check said first: the work tree as it is, and a note."""
    agents: dict[str, str]
    """Who would be launched, by role."""
    problems: tuple[str, ...]
    """Why somebody of them could not be launched today."""

    @classmethod
    def of(cls, rehearsal: Rehearsal, ended: SessionEnd) -> Rehearsed:
        """Read what happened, while it is still there, and find out who would do the real work."""
        with rehearsal.app.store(read_only=True) as store:
            run = store.run(ended.run)
            assert run is not None
            view = load_view(store, run)
            events = [recorded.event for recorded in store.events(run.id, kinds=[CheckRun])]
        checks = {event.command: _result(event) for event in reversed(events) if isinstance(event, CheckRun)}
        agents, problems = _find_agents(rehearsal)
        shown = tuple(view.tasks.values())
        return cls(rehearsal, ended, shown, tuple(reversed(checks.values())), agents, tuple(problems))


def _result(event: CheckRun) -> CheckResult:
    return event.result or CheckResult(event.command, event.exit_code, event.output)


def _find_agents(rehearsal: Rehearsal) -> tuple[dict[str, str], list[str]]:
    """Return who plays each role in the real run, and what keeps them from it."""
    from segue.runtime.doctor import agent_reports

    plan = rehearsal.real
    if plan.agent == SIMULATED and not plan.app.loaded.origins.get("agent"):
        found, _ = find_agent(plan.app)
        if found is None:
            return {}, ["No agent is ready on this machine: segue doctor says what is missing."]
        return dict.fromkeys(map(str, plan.chains), found.name), []
    names = list(dict.fromkeys(choice.agent for chain in plan.chains.values() for choice in chain))
    agents = {role: ", then ".join(one.name for one in chain) for role, chain in plan.chains.items()}
    reports = agent_reports(plan.app, names)
    return {str(role): shown for role, shown in agents.items()}, list(_describe_problems(reports))


def _describe_problems(reports: Sequence[AgentReport]) -> Iterator[str]:
    for report in reports:
        if not report.ready:
            yield f"{report.name} is not ready: {'; '.join(report.problems)} {report.fix}".rstrip()


def print_rehearsal(seen: Rehearsed, command: Sequence[str], output: Printer) -> None:
    """Print the summary; its last line is the command for the real run."""
    if output.json:
        output.record({**_data(seen), "next": join(command)})
    elif output.quiet:
        output.text(join(command))
    else:
        output.text("\n".join(["", *_lines(seen), "", "For real:", join(command)]))


def _data(seen: Rehearsed) -> dict[str, Any]:
    tasks = [
        {"task": one.key, "title": one.title, "state": one.state, "reason": one.reason} for one in seen.tasks
    ]
    return {
        "type": "rehearsal",
        "schema": 1,
        "tasks": tasks,
        "checks": [to_builtins(one) for one in seen.checks],
        "agents": seen.agents,
        "problems": list(seen.problems),
        "not_rehearsed": seen.rehearsal.left_out,
        "uncommitted": list(seen.rehearsal.uncommitted),
        "error": seen.ended.error.message if seen.ended.error else None,
        "exit_code": seen.ended.exit_code,
    }


def _lines(seen: Rehearsed) -> Iterator[str]:
    rehearsal = seen.rehearsal
    title = one_line(rehearsal.real.source.title, _TITLE_CHARS)
    yield f"Rehearsed {title}: {format_count(len(seen.tasks), 'task')}, in this order. Nothing of it is kept."
    width = max((len(one.key) for one in seen.tasks), default=0)
    for one in seen.tasks:
        reason = f": {one_line(one.reason, _REASON_CHARS)}" if one.reason and one.state != "done" else ""
        state = one.state.replace("_", " ")
        yield f"  {one.key:<{width}}  {one_line(one.title, _TITLE_CHARS)} · {state}{reason}"
    if seen.ended.error is not None and all(one.state in _NOT_ENDED for one in seen.tasks):
        yield f"It ended before the first task: {seen.ended.error.message}"
    else:
        yield from _check_lines(seen)
    yield from _agent_lines(seen)
    if rehearsal.left_out:
        yield f"Not rehearsed: {', '.join(rehearsal.left_out)}."
    if rehearsal.uncommitted:
        names = list_some(rehearsal.uncommitted, _MOST_NAMES)
        yield f"Commit first, or a real run does not start: {names}"


def _check_lines(seen: Rehearsed) -> Iterator[str]:
    if seen.checks:
        yield "Checks, on your work tree as it is today:"
        for one in seen.checks:
            yield f"  {one_line(one.command, _TITLE_CHARS)}: {describe_check(one)}"
        return
    app = seen.rehearsal.real.app
    found = None if app.loaded.settings.checks else suggest_check(work_tree(app.repo))
    offer = f"; `segue run` without --agent offers {found.command}" if found and not found.missing else ""
    yield f"No checks ran: none are configured{offer}."


def describe_check(result: CheckResult) -> str:
    """Say in a few words what a check has said."""
    if result.failing:
        names = list_some(result.failing, _MOST_NAMES)
        return f"{len(result.failing)} of {result.passed + len(result.failing)} tests fail: {names}"
    passed = result.state is CheckState.PASSED or (result.state is None and result.exit_code == 0)
    if passed:
        return "passed" + (f", {format_count(result.passed, 'test')}" if result.passed else "")
    said = [line for line in result.output.splitlines() if line.strip()]
    reason = result.reason or (said[-1] if said else "")
    ending = "could not be run" if result.exit_code is None else f"exit code {result.exit_code}"
    return f"{ending}: {one_line(reason, _REASON_CHARS)}" if reason else ending


def _agent_lines(seen: Rehearsed) -> Iterator[str]:
    if seen.agents:
        yield "A real run would launch:"
        width = max(map(len, seen.agents))
        for role, names in seen.agents.items():
            yield f"  {role:<{width}}  {names}"
    yield from seen.problems
