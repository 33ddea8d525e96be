"""The story of the demo: two agents at once, a cheat is caught, a kill is survived; then the proof."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import textwrap
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.run.demo import repository
from segue.cli.run.demo.repository import DemoRepository
from segue.cli.run.demo.runs import load_app
from segue.cli.terminal.display import event_record
from segue.cli.terminal.output import Printer, clean, one_line, program, terminal_width
from segue.domain import events as e
from segue.domain.amounts import format_count
from segue.domain.errors import SegueError, UsageError
from segue.domain.proof import CheckState
from segue.domain.run import Run
from segue.reports.card.build import build_cards
from segue.reports.card.card import ProofCard
from segue.reports.event_text import describe_event
from segue.runtime.app import App
from segue.runtime.background import detach, resume_in_background, stop_run
from segue.runtime.open import open_run
from segue.system import identity
from segue.system.process.segue import frozen, has_ended
from segue.system.programs import find_inside
from segue.view.load import ACTIVE, state_of

if TYPE_CHECKING:
    from segue.store.store import Store

Caption = tuple[str, str]
"""Words and their colour; without words nothing is said."""
_NOTHING = ("", "")
_SIGNS = {"  +": "green", "  -": "red"}


class Narrator:
    """Prints captions on 80 columns, with the time since the first event."""

    def __init__(self, output: Printer) -> None:
        self._output, self._width = output, min(80, terminal_width() or 80)
        self._said: set[str] = set()
        self.told: defaultdict[type[e.Event], set[str]] = defaultdict(set)
        """Kinds of events about which something was said, and of which tasks; an empty one is the run."""
        self._diffs: dict[str, str] = {}
        self._first = self._last = 0

    def tell(self, recorded: e.Recorded) -> None:
        """Say what is to be said about an event, once: an agent that is adopted says everything again."""
        event = recorded.event
        self._first, self._last = self._first or recorded.ts, recorded.ts
        if self._output.json:
            self._output.record(event_record(recorded))
        words, colour = make_caption(recorded)
        if words and words not in self._said:
            self._said.add(words)
            self.told[type(event)].add(_task(recorded))
            self.say(words, colour)
            changes = self._diffs.get(event.task, "") if isinstance(event, e.CheckRun) else ""
            for line in pick_changes(changes):
                self.say(line, _SIGNS.get(line[:3], ""), " " * 9)
        if isinstance(event, e.PatchMade):
            self._diffs[event.task] = event.diff

    def say(self, words: str, colour: str = "", lead: str | None = None) -> None:
        """Print words after the time, or after another lead."""
        lead = f"{(self._last - self._first) / 1000:5.1f} s  " if lead is None else lead
        lines = textwrap.wrap(clean(words), self._width - len(lead))
        self._output.painted(lead + self._paint(("\n" + " " * len(lead)).join(lines), colour))

    def head(self, words: str) -> None:
        """Print a heading."""
        self._output.painted("\n" + self._paint(words, "bold"))

    def _paint(self, text: str, colour: str) -> str:
        if not (colour and self._output.colored()):
            return text
        return click.style(text, bold=True) if colour == "bold" else click.style(text, fg=colour)


def pick_changes(diff: str) -> Iterator[str]:
    """Yield what a diff changes in files that were there before: their names, and the changed lines."""
    for file in diff.split("diff --git ")[1:]:
        head, *hunks = file.split("\n@@ ")
        if "\nnew file " not in head:
            yield head.splitlines()[0].partition(" b/")[2]
            lines = (line for hunk in hunks for line in hunk.splitlines()[1:])
            yield from (f"  {line[0]} {line[1:].strip()}" for line in lines if line[:1] in "+-" and line[1:])


def make_caption(recorded: e.Recorded) -> Caption:
    """Return what the demo says about an event."""
    make = _CAPTIONS.get(type(recorded.event))
    return make(recorded.event, recorded) if make else _NOTHING


def _describe_check(event: e.CheckRun, _at: e.Recorded) -> Caption:
    found = event.result
    if found is None or (found.ok and not found.unsettled):
        return _NOTHING
    caught = found.ok or found.state in (CheckState.REFUTED, CheckState.CONTESTED)
    said = f"CAUGHT by {event.command}." if caught else f"{event.command}: {found.state or 'failed'}."
    changed = [f"{one.test or one.path}: {one.why}" for one in found.unsettled[:1]]
    return f"Task {event.task}: {said} {found.reason or ''.join(changed)}", "red"


def _describe_step(event: e.StepStarted, _at: e.Recorded) -> Caption:
    if event.phase == "resolve":
        return f"Task {event.task}: the agent is sent back to fix it.", "yellow"
    again = event.phase == "execute" and event.attempt > 1
    return (f"Task {event.task}: attempt {event.attempt} begins.", "yellow") if again else _NOTHING


def _describe_agent(event: e.AgentEnded, at: e.Recorded) -> Caption:
    if event.failure is not None:
        return f"Task {_task(at)}: the agent failed: {event.failure.message}", "red"
    words = f"Task {_task(at)}: its agent outlived Segue: found again, not started twice."
    return (words, "cyan") if event.was_adopted else _NOTHING


def _task(recorded: e.Recorded) -> str:
    parts = (recorded.step or "").split("/")
    return getattr(recorded.event, "task", None) or (parts[1] if parts[0] == "task" else "")


def _describe(colour: str) -> Callable[[Any, e.Recorded], Caption]:
    """Return a caption with the words of the log."""
    return lambda _, at: ((words := describe_event(at) or "")[:1].upper() + words[1:], colour)


_CAPTIONS: dict[type[e.Event], Callable[[Any, e.Recorded], Caption]] = {
    e.TaskStarted: lambda v, _: (
        f"Task {v.task} begins{', in a git worktree of its own' if v.lane else ''}.",
        "",
    ),
    e.AgentText: lambda v, at: (f'Task {_task(at)}: the agent says "{v.text}"', ""),
    e.AgentEnded: _describe_agent,
    e.CheckRun: _describe_check,
    e.StepStarted: _describe_step,
    e.RunResumed: lambda v, _: ("A new Segue continues the run.", "cyan") if v.last_seen else _NOTHING,
    e.TaskEnded: lambda v, at: _describe("green" if v.done else "red")(v, at),
    e.WorkDelivered: _describe("green"),
    e.RunEnded: lambda v, at: _NOTHING if v.state == "done" else _describe("red")(v, at),
    **dict.fromkeys((e.RunParked, e.WaitBegan, e.WaitEnded, e.AgentReplaced), _describe("yellow")),
    **dict.fromkeys((e.TaskCollided, e.TaskBlocked, e.Tampered, e.NoticeGiven), _describe("yellow")),
}
"""What is said about each kind of event. Nothing else is said while the run works, but for the kill."""


_CHEAT = "2"
_AT_WORK = {"task/1/execute/1", f"task/{_CHEAT}/resolve/1"}
"""The steps in which Segue is killed: both agents work, one of them was just sent back."""
_TOLD: dict[type[e.Event], set[str]] = {
    e.CheckRun: {_CHEAT},
    e.RunResumed: {""},
    e.AgentEnded: {"1", _CHEAT},
    e.WorkDelivered: {""},
}
"""About which tasks something must be said: a failing check, a kill, agents that outlived it, the result."""


async def show_story(folder: Path | None, output: Printer) -> int:
    """Run a plan in the background, kill Segue once, and show what is recorded."""
    segue, checks = program(), [[_find_python(), "-m", "unittest"]]
    place = await repository.create_shop(folder)
    app = load_app(
        place,
        "scripted",
        jobs=2,
        checks=checks,
        agents={"scripted": {"script": str(place.folder / "script.toml")}},
        sandbox={"read": [str(place.signals)]},
        limits={"phase_timeout": 300},
    )
    async with open_run(app, str(place.plan)) as opened:
        assert opened is not None
        run = opened.run
        titles = [f"  {key}. {title}" for key, title in run.spec.titles.items()]
        output.text(_OPENING.format(titles="\n".join(titles)))
        session, log = await detach(opened)
    narrator = Narrator(output)
    with app.store() as store:
        try:
            await _watch(app, store, run, session, log, place, narrator)
        finally:
            if (now := store.run(run.id)) is not None and now.state in ACTIVE:
                await stop_run(app, now)
        [card] = build_cards(store, run, (), [_CHEAT])
    missing = [kind.type for kind, tasks in _TOLD.items() if narrator.told[kind] != tasks]
    if output.json:
        output.record({"type": "done", "run": run.id, "exit_code": int(bool(missing))})
    if missing:
        raise SegueError(
            f"The demo went another way: see its events {', '.join(missing)}.", hint=f"See {log}"
        )
    narrator.head(f"The proof of task {_CHEAT}, whose agent cheated first")
    for label, words in sum_up(card):
        narrator.say(words, lead=f"  {label:<26}")
    state = shlex.quote(str(place.state))
    output.text(_CLOSING.format(segue=segue, folder=place.folder, state=state))
    return 0


def _find_python() -> str:
    """Return the Python that runs the tests of the shop: ours, because a shim on PATH may be slow."""
    if not frozen():
        python = Path(sys.executable)
        os.environ["PATH"] = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return python.name
    if not find_inside("python3"):
        hint = "Install Python, or see another part: segue demo build"
        raise UsageError("The demo runs tests in Python, but python3 is not on the PATH.", hint=hint)
    return "python3"


async def _watch(
    app: App, store: Store, run: Run, session: int, log: Path, place: DemoRepository, narrator: Narrator
) -> None:
    """Follow the run until it ends, and kill it once when both agents work."""
    seq, waiting = 0, set(_AT_WORK)
    while True:
        gone = has_ended(session)  # asked before the events are read, so that none is missed
        now = store.run(run.id) or run
        for event in store.events(run.id, after=seq):
            seq = event.seq
            narrator.tell(event)
            if isinstance(event.event, e.TaskEnded):
                place.signal("killed", "task-ended")
            if isinstance(event.event, e.AgentText) and event.step in waiting:
                waiting.remove(event.step)
                if not waiting:
                    _kill(str((store.run(run.id) or run).owner).split("#")[0], session, narrator)
                    place.signal("killed")
                    session, gone = resume_in_background(app, run, log), False
        if gone and state_of(now) not in ACTIVE:
            return
        store.wait_for_change(timeout=0.2)


def _kill(owner: str, session: int, narrator: Narrator) -> None:
    """Kill a process as nothing can catch it, and wait until it is gone."""
    pid = identity.pid_of(owner)
    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    narrator.say(f"kill -9 {pid}: Segue is dead, in the middle of its work.", "magenta")
    while not (has_ended(session) and identity.is_dead(owner)):
        time.sleep(0.01)


def sum_up(card: ProofCard) -> Iterator[tuple[str, str]]:
    """Yield the proof of a task in a few lines: what was looked at, and what was found."""
    yield "conclusion", f"{card.conclusion}, decided by {', '.join(card.decided_by) or 'nobody'}"
    for check in card.checks:
        if not check.of:
            yield f"checks, {check.seal}", f"{check.command}: {format_count(check.passed, 'test')} passed"
            yield from (("failed before, passes now", test) for test in check.proved)
            if check.noticed:
                yield "the change sabotaged", "noticed: the check fails"
    yield "marks", ", ".join(card.marks)
    if card.reasons:
        yield "not stronger because", one_line("; ".join(card.reasons), 52)


_OPENING = """\
Segue runs a plan with coding agents, and a task is done when tests prove it.
Here two simulated agents work on a small shop. Processes, git, tests and the
database are real.

{titles}
"""

_CLOSING = """
All of it is stored in {folder}. To look at it in a browser:
SEGUE_STATE_DIR={state} {segue} serve --open

To see what is ready for a plan of your own:
{segue} doctor"""
