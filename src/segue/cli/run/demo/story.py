"""The story of the demo: a cheat is caught, a limit is waited out, a kill is survived; then the proof."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import click

from segue.cli.run.demo.runs import load_app
from segue.cli.terminal.display import event_record
from segue.cli.terminal.output import Printer, clean, program, terminal_width
from segue.domain import events as e
from segue.domain.errors import SegueError, UsageError
from segue.domain.run import Run
from segue.domain.until import describe_until
from segue.ports import Store
from segue.reports.card.build import build_cards
from segue.reports.card.layout import lay_out
from segue.reports.card.text import render_text
from segue.reports.event_text import describe_event
from segue.runtime.app import App
from segue.runtime.background import detach, start_resume
from segue.runtime.open import open_run
from segue.runtime.session import stop_run
from segue.sim.demo import repository
from segue.system import identity
from segue.system.program import frozen, has_ended
from segue.view.load import ACTIVE, state_of
from segue.view.run import RunView

_PATIENCE = 300.0
_CHEAT, _LIMITED = "2", "3"
"""The task whose agent cheats, and the one whose agent reaches a usage limit."""
_KILL = f"task/{_CHEAT}/resolve/1"
"""The step in which Segue is killed: the agent was just sent back."""


async def show_story(folder: Path | None, output: Printer) -> int:
    """Run a plan in the background, kill Segue once, and show what is recorded."""
    checks = [[_find_python(), "-m", "unittest"]]
    place = await repository.create_shop(folder)
    scripted = {"script": str(place.folder / "script.toml")}
    app = load_app(place, "scripted", jobs=2, checks=checks, agents={"scripted": scripted})
    async with open_run(app, str(place.plan), (), None) as opened:
        assert opened is not None
        run = opened.run
        titles = [f"  {key}. {title}" for key, title in run.spec.titles.items()]
        output.text(_OPENING.format(titles="\n".join(titles)))
        await detach(opened)
    with app.store() as store:
        try:
            events = await _watch(app, store, run, output)
        finally:
            if (now := store.run(run.id)) is not None and now.state in ACTIVE:
                await stop_run(app, now)
        shown = list(recount(run, events, await place.subjects()))
        cards = [card for card in build_cards(store, run, ()) if card.task == _CHEAT]
    output.text(f"\nThe proof of task {_CHEAT}, whose agent cheated:\n")
    output.text(render_text([lay_out(card) for card in cards], _width()) + "\n\nWhat you have seen:")
    for ok, text in shown:
        _say(output, text, "green" if ok else "red", "  ✓ " if ok else "  ✗ ")
    missing = [text for ok, text in shown if not ok]
    if output.json:
        output.record({"type": "done", "run": run.id, "exit_code": int(bool(missing))})
    if missing:
        log = app.run_folder(run.id) / "segue.log"
        raise SegueError(f"The demo failed to show: {' '.join(missing)}", hint=f"See {log}")
    output.text(_CLOSING.format(segue=program(), folder=place.folder, state=place.state))
    return 0


def _find_python() -> str:
    """Return the Python that runs the tests of the shop."""
    if sys.platform != "win32" and shutil.which("python3"):
        return "python3"
    if frozen():
        hint = "Install Python, or see another part: segue demo feature"
        raise UsageError("The demo runs tests in Python, but python3 is not on the PATH.", hint=hint)
    return sys.executable


async def _watch(app: App, store: Store, run: Run, output: Printer) -> list[e.Recorded]:
    """Follow the run until it ends, and kill it on the way; return its events."""
    events: list[e.Recorded] = []
    said: set[str] = set()
    deadline, killed = time.monotonic() + _PATIENCE, False
    while time.monotonic() < deadline:
        now = store.run(run.id) or run
        ended = state_of(now) not in ACTIVE
        for event in store.events(run.id, after=events[-1].seq if events else 0):
            events.append(event)
            clock = f"{(event.ts - events[0].ts) / 1000:5.1f} s  "
            text, style = _caption(event)
            if output.json:
                output.record(event_record(event))
            elif text not in said:  # an agent that is found again says all of it again
                said.add(text)
                _say(output, text, style, clock)
            if event.step == _KILL and isinstance(event.event, e.AgentStarted) and not killed:
                killed, ended = True, False
                pid = _kill(str(now.owner).split("#")[0])
                _say(output, f"kill -9 {pid}: Segue is dead, in the middle of its work.", "magenta", clock)
                await start_resume(app, now)
        if ended:
            return events
        store.wait_for_change(timeout=0.2)
    raise SegueError(f"The demo did not end in {_PATIENCE:g} s.", hint=f"See {app.run_folder(run.id)}")


def _kill(owner: str) -> int:
    """Kill a process as nothing can catch it, wait until it is gone, and return its pid."""
    pid = identity.pid_of(owner)
    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    while not (has_ended(pid) and identity.is_dead(owner)):
        time.sleep(0.02)
    return pid


def _caption(recorded: e.Recorded) -> tuple[str, str]:
    """Return what the story says about an event, and in which colour; empty: nothing."""
    describe = _CAPTIONS.get(type(recorded.event))
    return describe(recorded.event, recorded) if describe else ("", "")


def _caption_check(event: e.CheckRun, _at: e.Recorded) -> tuple[str, str]:
    if event.result is None or event.result.ok:
        return "", ""
    return f"Task {event.task}: CAUGHT. {event.result.reason}", "red"


def _caption_step(event: e.StepStarted, _at: e.Recorded) -> tuple[str, str]:
    if event.phase == "resolve":
        return f"Task {event.task}: the agent is sent back, with this reason.", "red"
    again = event.phase == "execute" and event.attempt > 1
    return (f"Task {event.task}: the limit is over, the agent starts again.", "yellow") if again else ("", "")


def _caption_end(event: e.AgentEnded, at: e.Recorded) -> tuple[str, str]:
    if not event.was_adopted:
        return "", ""
    return f"Task {_task_of(at)}: the agent survived the kill. It was found, not started twice.", "magenta"


def _caption_limit(event: e.RunParked, at: e.Recorded) -> tuple[str, str]:
    until = describe_until(event.until, at.ts / 1000)
    return f"Task {event.task}: the agent reached a usage limit. Segue waits {until}.", "yellow"


_CAPTIONS: dict[type[e.Event], Callable[[Any, e.Recorded], tuple[str, str]]] = {
    e.TaskStarted: lambda v, _: (
        f"Task {v.task}: an agent starts in lane {v.lane}, a git worktree of its own.",
        "",
    ),
    e.AgentText: lambda v, at: (f'Task {_task_of(at)}: the agent says "{v.text}"', ""),
    e.CheckRun: _caption_check,
    e.StepStarted: _caption_step,
    e.AgentEnded: _caption_end,
    e.RunParked: _caption_limit,
    e.RunResumed: lambda v, _: (
        "segue resume: a new process continues the run." if v.last_seen else "",
        "magenta",
    ),
    e.TaskEnded: lambda _, at: (f"T{str(describe_event(at))[1:]}", "green"),
    e.WorkDelivered: lambda v, _: (v.text, "green"),
}


def _task_of(recorded: e.Recorded) -> str:
    return (recorded.step or "//").split("/")[1]


def recount(run: Run, events: Sequence[e.Recorded], subjects: Sequence[str]) -> Iterator[tuple[bool, str]]:
    """Yield each part of the story, and whether events and commits show that it happened."""
    view = RunView.of(run.spec.titles, events)
    proven = {key for key, task in view.tasks.items() if task.proof is not None and task.proof.level.proven}
    caught = [at for at in events if _caption(at)[0].startswith(f"Task {_CHEAT}: CAUGHT")]
    yield (
        bool(caught) and _CHEAT in proven,
        "An agent cheated. It was caught, sent back, and then did the work.",
    )
    pairs = combinations([one for one in view.work.stretches if one.end is not None], 2)
    both = sum(min(a.end or 0, b.end or 0) > max(a.start, b.start) for a, b in pairs if a.task != b.task)
    yield both > 0, "Two tasks were worked on at once."
    until = [at.event.until for at in events if isinstance(at.event, e.RunParked)]
    again = [at.ts / 1000 for at in events if at.step == f"task/{_LIMITED}/execute/2"]
    waited = bool(until and again) and min(again) >= min(until) and _LIMITED in proven
    yield waited, "A usage limit was waited out."
    ends = [(at.step, at.event) for at in events if isinstance(at.event, e.AgentEnded)]
    found = any(ended.was_adopted for _, ended in ends)
    agents = {(step, ended.facts.get("pid")) for step, ended in ends}
    commits = Counter(subject.partition(":")[0] for subject in subjects if subject.startswith("Task "))
    once = len(agents) == view.launches and commits == {f"Task {key}": 1 for key in view.tasks}
    words = f"{len(agents)} agents were started and {commits.total()} tasks committed, none of them twice."
    yield found and once, f"Segue was killed and continued: {words}"
    yield proven == set(view.tasks), f"Tests prove {len(proven)} of {len(view.tasks)} tasks."


def _say(output: Printer, text: str, style: str, lead: str) -> None:
    """Print a caption, wrapped to the terminal."""
    if text:
        lines = textwrap.fill(clean(text), _width(), initial_indent=lead, subsequent_indent=" " * len(lead))
        output.painted(click.style(lines, fg=style) if style and output.colored() else lines)


def _width() -> int:
    return min(100, terminal_width() or 100)


_OPENING = """\
Two agents work on a plan for a small shop. The agents are simulated; processes,
git, tests and the database are real. A task is done when tests prove it.

{titles}
"""

_CLOSING = """
All of it is stored in {folder}
(the repository is in repo, the database is state/segue.db).

Try next:
  this run in a browser    SEGUE_STATE_DIR={state} {segue} serve --open
  the agents you have      {segue} doctor
  a plan of your own       {segue} run PLAN.md --dry-run"""
