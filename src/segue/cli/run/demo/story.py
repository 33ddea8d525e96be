"""The story of the demo: two agents at once, a cheat is caught, a kill is survived; then the proof."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from segue.cli.run.demo.captions import Narrator
from segue.cli.run.demo.runs import load_app
from segue.cli.terminal.output import Printer, one_line, program
from segue.domain import events as e
from segue.domain.amounts import format_count
from segue.domain.errors import SegueError, UsageError
from segue.domain.run import Run
from segue.ports import Store
from segue.reports.card.build import build_cards
from segue.reports.card.card import ProofCard
from segue.runtime.app import App
from segue.runtime.background import detach
from segue.runtime.open import open_run
from segue.runtime.session import resume_in_background, stop_run
from segue.sim.demo import repository
from segue.sim.demo.repository import DemoRepository
from segue.system import identity
from segue.system.process.segue import frozen, has_ended
from segue.system.programs import find_inside
from segue.view.load import ACTIVE, state_of

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
        hint = "Install Python, or see another part: segue demo feature"
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
    if card.held is not None:
        yield "proofs of earlier tasks", f"{card.held[1]} of {card.held[0]} still hold"
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
