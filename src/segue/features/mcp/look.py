"""Tools that look: at sources, tasks, runs, proofs and logs; and one that waits for a run."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from mcp.server.mcpserver import Context
from msgspec import to_builtins
from pydantic import Field

from segue.domain.amounts import describe_until
from segue.domain.errors import UsageError
from segue.domain.events import PLAN_GATE, Recorded
from segue.domain.kinds import with_kinds
from segue.domain.run import USUAL_RUNS, Run
from segue.features.mcp.project import ServedProject
from segue.flow.phase import INDEPENDENT
from segue.reports.card.build import build_cards
from segue.reports.card.card import ProofCard
from segue.reports.event_text import describe_event, locate_event
from segue.runtime.plan import kind_rules
from segue.runtime.sources import find_sources, read_tasks
from segue.system.reading import work_tree
from segue.view.data import run_data
from segue.view.load import ACTIVE, load_view, state_of
from segue.view.run import RunView

if TYPE_CHECKING:
    from segue.store.store import Store


T = TypeVar("T")
Data = dict[str, Any]
Report = Callable[[float, float, str], Awaitable[None]]
RunName = Annotated[str, Field(description="A run's id, the beginning of one, or `last` for the newest.")]

_MOST_TASKS = 100
_MOST_LINES = 500
_MOST_TEXT = 400
_LONGEST_WAIT = 600
_LOOK_SECONDS = 1.0
_TASK_FIELDS = (
    "key",
    "title",
    "state",
    "phase",
    "attempts",
    "proof",
    "marks",
    "reason",
    "commit",
    "waits_for",
)
_CARD_FIELDS = (
    *("task", "title", "state", "proof", "marks", "summary", "conclusion", "meaning", "missing", "reasons"),
    *("look_at", "commit"),
)
_SETTLED = ("done", "pending")


class LookTools:
    """What a caller may ask."""

    def __init__(self, project: ServedProject) -> None:
        self._project = project

    async def list_sources(self) -> Data:
        """List what can be run in this repository: plan files, Spec Kit features, the configured source."""

        def look() -> Data:
            app = self._project.look()
            found = [to_builtins(source) for source in find_sources(app)]
            return {"repo": str(app.repo), "sources": found}

        return await asyncio.to_thread(look)

    async def list_tasks(
        self,
        source: Annotated[
            str, Field(description="As `list_sources` names it; empty: the configured one.")
        ] = "",
    ) -> Data:
        """List the tasks that Segue reads from a source, with their state and warnings about the file."""

        def look() -> Data:
            app = self._project.look()
            self._project.check_source(source)
            opened = app.source(source or None, work_tree(app.repo))
            listing = with_kinds(opened.look(), kind_rules(app))
            tasks = [
                {"key": task.key, "title": task.title, "status": task.status, "kind": task.kind}
                for task in listing.tasks
            ]
            return {
                "source": opened.address,
                "kind": opened.kind,
                "tasks": tasks[:_MOST_TASKS],
                "left_out": max(0, len(tasks) - _MOST_TASKS),
                "warnings": [notice.text for notice in listing.notices[:_MOST_TASKS]],
                "refused": listing.refusal.message if listing.refusal is not None else None,
            }

        return plain(await asyncio.to_thread(look))

    async def list_runs(self, limit: Annotated[int, Field(ge=1, le=100)] = 10) -> Data:
        """List the newest runs of all repositories on this machine, newest first."""

        def look() -> Data:
            with self._project.look().store(read_only=True) as store:
                runs = store.runs(limit=limit, kinds=USUAL_RUNS)
            return {"runs": [_describe_run(run) for run in runs]}

        return plain(await asyncio.to_thread(look))

    async def run_status(self, run: RunName = "last") -> Data:
        """Show a run: its state, why it stopped, and its tasks with how well each is proven."""
        return await asyncio.to_thread(read_status, self._project, run)

    async def read_proof(
        self,
        run: RunName = "last",
        task: Annotated[str, Field(description="A task's key; empty: a line for each task.")] = "",
    ) -> Data:
        """Read the evidence for the tasks of a run: what was checked, by whom, and what is missing."""
        cards = await asyncio.to_thread(read_cards, self._project, run, task)
        if task:
            return plain(cards[0].to_json())
        listed = [{name: getattr(card, name) for name in _CARD_FIELDS} for card in cards]
        return plain({"tasks": listed[:_MOST_TASKS], "left_out": max(0, len(listed) - _MOST_TASKS)})

    async def read_log(
        self,
        run: RunName = "last",
        last: Annotated[int, Field(ge=1, le=_MOST_LINES, description="How many events.")] = 50,
        after: Annotated[int, Field(ge=0, description="Only events with a higher `seq`.")] = 0,
    ) -> Data:
        """Read the last events of a run, oldest first: what agents said and did, checks, verdicts."""

        def look() -> Data:
            app = self._project.look()
            with app.store(read_only=True) as store:
                found = self._project.find(store, app, run)
                lines = deque(
                    (
                        {
                            "seq": event.seq,
                            "at": _instant(event.ts),
                            "where": locate_event(event),
                            "text": text,
                        }
                        for event in store.events(found.id, after=after)
                        if not (self._project.in_run and _is_unseen(event))
                        and (text := (describe_event(event) or "")[:_MOST_TEXT])
                    ),
                    maxlen=last,
                )
            return {"run": found.id, "state": state_of(found), "events": list(lines)}

        return plain(await asyncio.to_thread(look))

    async def wait_for_run(
        self,
        ctx: Context,
        run: RunName = "last",
        seconds: Annotated[
            float, Field(ge=0, le=_LONGEST_WAIT, description="Return after so many seconds at the latest.")
        ] = 45,
    ) -> Data:
        """Wait until a run ends or needs a decision, and return its status; or after some seconds, as it is.

        Reports progress meanwhile. Call it again while the state is `queued`, `running` or `parked`.
        """
        app = await asyncio.to_thread(self._project.look)
        with app.store(read_only=True) as store:
            found = await asyncio.to_thread(self._project.find, store, app, run)
            return await _watch(store, found, seconds, ctx.report_progress)


def _is_unseen(event: Recorded) -> bool:
    """Return whether it shows who writes independent tests at work."""
    return f"/{INDEPENDENT.name}/" in f"{event.step}/"


def read_status(project: ServedProject, name: str) -> Data:
    """Return what is known of a run, as far as it fits into an answer."""
    app = project.look()
    with app.store(read_only=True) as store:
        run = project.find(store, app, name)
        view = load_view(store, run)
    return describe(run, view)


def describe(run: Run, view: RunView) -> Data:
    """Describe a run with its tasks; those that are neither done nor pending come first."""
    data = {"run": run.id, **run_data(run, view)}
    tasks = sorted(data.pop("tasks"), key=lambda task: task["state"] in _SETTLED)
    data["counts"] = Counter(task["state"] for task in tasks)
    shown = [{name: task[name] for name in _TASK_FIELDS if task[name]} for task in tasks[:_MOST_TASKS]]
    data |= {"tasks": shown, "left_out": len(tasks) - len(shown), "next": _next(data, view)}
    del data["id"], data["lanes"]
    return plain(data)


def _next(data: Data, view: RunView) -> str:
    """Say which tool a caller would use now."""
    match data["state"]:
        case "queued" | "running" | "parked":
            return "Call wait_for_run."
        case "done":
            return "Call read_proof to see how well each task is proven."
        case "needs_human" if view.gate == PLAN_GATE:
            return "Show the user the tasks; then decide `resume` to approve, or comment on `plan` to reject."
        case "needs_human" if any(task.state == "needs_human" for task in view.tasks.values()):
            return "Ask the user, then call decide: retry, or accept or skip a task and then resume."
    return "Call decide with `resume` to continue."


def read_cards(project: ServedProject, name: str, task: str = "") -> list[ProofCard]:
    """Return the proof cards of a run; of one task, if it is named."""
    app = project.look()
    with app.store(read_only=True) as store:
        run = project.find(store, app, name)
        cards = build_cards(store, run, read_tasks(app, run)[0])
    chosen = [card for card in cards if not task or card.task == task]
    if task and not chosen:
        keys = ", ".join(card.task for card in cards[:_MOST_TASKS])
        raise UsageError(f"There is no task {task!r} in run {run.id}.", hint=f"Its tasks are: {keys}")
    return chosen


def _describe_run(run: Run) -> Data:
    return {
        "run": run.id,
        "state": state_of(run),
        "agent": run.spec.agent,
        "source": run.source_name,
        "repo": run.spec.repo,
        "started": _instant(run.created),
        "note": run.note,
    }


def _instant(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms / 1000))


def plain(value: T) -> T:
    """Return values as JSON has them."""
    made: T = json.loads(json.dumps(value, default=str))
    return made


async def _watch(store: Store, run: Run, seconds: float, report: Report) -> Data:
    deadline = time.monotonic() + seconds
    progress = _Progress(report)
    while True:
        run, view = await asyncio.to_thread(_read, store, run)
        left = deadline - time.monotonic()
        if state_of(run) not in ACTIVE or left <= 0:
            return describe(run, view)
        await progress.tell(view)
        await asyncio.to_thread(store.wait_for_change, min(_LOOK_SECONDS, left))


def _read(store: Store, run: Run) -> tuple[Run, RunView]:
    now = store.run(run.id) or run
    return now, load_view(store, now)


class _Progress:
    """Reports what changed; the number it reports grows with every report, as the protocol demands."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._last = ""
        self._done = -1
        self._told = 0

    async def tell(self, view: RunView) -> None:
        words = _say_progress(view)
        if words == self._last:
            return
        self._told = self._told + 1 if view.done == self._done else 0
        self._last, self._done = words, view.done
        await self._report(view.done + 1 - 1 / (1 + self._told), max(len(view.tasks), view.done + 1), words)


def _say_progress(view: RunView) -> str:
    working = [task for task in view.tasks.values() if task.state in ("running", "parked")]
    parts = [f"{view.done} of {len(view.tasks)} tasks done"]
    parts += [" ".join(filter(None, (f"task {task.key}:", task.phase, task.agent))) for task in working[:3]]
    parts += [f"task {task.key} waits {describe_until(task.wake)}" for task in working[:3] if task.wake]
    return " · ".join(parts)
