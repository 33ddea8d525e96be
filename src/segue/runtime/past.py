"""What is done of a source over all its runs, as the journal knows it; and before a run starts or resumes,
an agreement about that between source, journal and repository.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.domain.delivery import is_feedback
from segue.domain.errors import Locked, SourceError, UsageError, WorkspaceError
from segue.domain.events import Committed, PlanRevised, Recorded, StateImported, TaskMarked
from segue.domain.results import EndOutput, JudgeOutput, LaunchOutput, SnapshotOutput, read_as
from segue.domain.run import Run, RunState, Step, StepState
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Task, TaskList, TaskStatus
from segue.flow.phase import PHASES
from segue.ports import Source
from segue.runtime.app import App
from segue.runtime.moved import known_key
from segue.system import identity
from segue.system.git.remotes import find_absent, find_subjects, find_trailers, is_shallow
from segue.system.git.repository import Repository
from segue.view.load import state_of

if TYPE_CHECKING:
    from segue.store.store import Store


_KINDS = (TaskMarked, StateImported, PlanRevised, Committed)
_ENDS = (
    "SELECT s.run_id, s.task FROM orchestrator_steps s JOIN orchestrator_runs r ON r.id = s.run_id"
    " WHERE r.source_key = ? AND s.phase = 'end' AND s.state = 'done' AND s.superseded IS NULL"
)


def read_history(store: Store, source_key: str) -> SourceHistory:
    """Return what the journal knows about the tasks of a source."""
    runs = tuple(run.id for run in reversed(store.runs(source_key=source_key)))
    if not runs:
        return SourceHistory()
    ended = {(str(row["run_id"]), str(row["task"])) for row in store.query(_ENDS, [source_key])}
    fold = _Fold(ended)
    for run in runs:
        for event in store.events(run, kinds=_KINDS):
            fold.apply(event)
    marks = dict(fold.marks)
    return SourceHistory(
        runs, marks, tuple(fold.plans), frozenset(fold.without), lambda: _detailed(store, marks)
    )


class _Fold:
    """Takes the events of a source one by one."""

    def __init__(self, ended: set[tuple[str, str]]) -> None:
        self._ended = ended
        self._commits: dict[str, str] = {}
        self.marks: dict[str, Completion] = {}
        self.plans: list[tuple[Task, ...]] = []
        self.without: set[str] = set()

    def apply(self, recorded: Recorded) -> None:
        match recorded.event:
            case Committed(task, commit):
                self._commits[task] = commit
            case PlanRevised() as revised:
                self.plans.append(revised.new)
            case TaskMarked() as marked:
                self._mark(marked, recorded)
            case StateImported() as imported:
                self._import(imported, recorded)

    def _mark(self, event: TaskMarked, at: Recorded) -> None:
        if is_feedback(event.task):  # the source does not know it
            return
        # A task that was marked but not ended is ended, without a launch, when its run is resumed.
        if event.done and event.by is None and (at.run, event.task) not in self._ended:
            return
        if not event.done and event.task not in self.marks:
            return
        done = TaskStatus.SKIPPED if event.skipped else TaskStatus.DONE
        seq = at.seq if at.step else 0  # without a step it was the source that said so
        self._set(event.task, done if event.done else TaskStatus.PENDING, at.run, seq, event.digest)

    def _import(self, event: StateImported, at: Recorded) -> None:
        self.without.update(event.without)
        if event.task is not None:
            self._set(event.task, TaskStatus.PENDING, at.run)
        if event.done is None:
            return
        now = dict.fromkeys(event.skipped, TaskStatus.SKIPPED) | dict.fromkeys(event.done, TaskStatus.DONE)
        for key in [*self.marks, *now]:
            before, status = self.marks.get(key), now.get(key, TaskStatus.PENDING)
            if before is None or before.status is not status:
                self._set(key, status, at.run, digest=event.done.get(key, ""))

    def _set(self, task: str, status: TaskStatus, run: str, seq: int = 0, digest: str = "") -> None:
        self.marks.pop(task, None)
        commit = self._commits.get(task) if seq and status is TaskStatus.DONE else None
        self.marks[task] = Completion(status, run, seq, commit, digest=digest or None)


def _detailed(store: Store, marks: Mapping[str, Completion]) -> dict[str, Completion]:
    """Return the marks with what the steps of their runs recorded."""
    found: dict[tuple[str, str], list[Step]] = {}
    for run in {mark.run for mark in marks.values() if mark.status is TaskStatus.DONE}:
        for step in store.steps(run):
            if step.task is not None and step.state is StepState.DONE:
                found.setdefault((run, step.task), []).append(step)
    return {key: _describe(mark, found.get((mark.run, key), [])) for key, mark in marks.items()}


def _describe(mark: Completion, steps: list[Step]) -> Completion:
    by_phase = {step.phase: step for step in steps}
    end = by_phase.get("end")
    if mark.status is not TaskStatus.DONE or end is None:
        return mark
    ending = read_as(EndOutput, end.output)
    base = read_as(SnapshotOutput, by_phase["base"].output) if "base" in by_phase else SnapshotOutput()
    editing = {phase.name for phase in PHASES.values() if phase.edits}
    launches = [read_as(LaunchOutput, step.output) for step in steps if step.phase in editing]
    plan, verify = by_phase.get("plan"), by_phase.get("verify")
    return replace(
        mark,
        commit=ending.commit or base.head or None,
        branch=ending.branch,
        attempts=ending.attempts,
        session=launches[-1].session if launches else None,
        agent_id=launches[-1].agent_id if launches else None,
        url=launches[-1].url if launches else None,
        plan=read_as(LaunchOutput, plan.output).text if plan else None,
        verdict=read_as(JudgeOutput, verify.output).verdict if verify else None,
    )


_ALL = ("run/", "task/")


class CommitsMissing(UsageError):
    """The journal names commits that the repository does not contain; the user must choose."""


class TickedByNobody(UsageError):
    """Tasks are marked as done that no run did; the user must say whether they are."""


class Past(Struct, frozen=True):
    """What is known about a source when a run of it starts."""

    history: SourceHistory = field(default_factory=SourceHistory)
    restored: str = ""
    """What to say about the source's own record."""
    redo: tuple[str, ...] = ()
    """The steps of the unfinished run that do not count any more, by the beginnings of their keys."""
    without: tuple[str, ...] = ()
    """The commits that are missing, where the user wants to continue without them."""


class Known(Struct, frozen=True):
    """What the journal knows about a source, and which commits of it the repository lacks, by task."""

    history: SourceHistory
    lost: dict[str, str] = {}
    moved: dict[str, str] = {}
    """Those whose work other commits contain."""
    named: tuple[str, ...] = ()
    """Tasks that commits here name, although neither a run nor a record knows of any."""


async def look_back(
    app: App,
    store: Store,
    home: Repository,
    source: Source,
    last: Run | None,
    *,
    continues: bool = True,
    restart: bool = False,
) -> Known:
    """Read what is known about a source; raises CommitsMissing if its work is not in this repository.

    `last` is its last run, `continues` says whether that one is to be continued.
    """
    history = read_history(store, last.source_key if last else source.key)
    begun = last if continues else None
    lost, moved = ({}, {}) if restart else await _find_missing(store, home, history, begun)
    if lost and app.loaded.settings.plan_changed == "ask":
        raise _refusal(store, home, source, last, lost)
    named = () if restart or history.runs else await _find_named(home, source)
    return Known(history, lost, moved, named)


async def _find_named(home: Repository, source: Source) -> tuple[str, ...]:
    """Return the pending tasks that commits here say were done; their words tell them from other plans."""
    try:
        if source.recorded() is None:
            return ()
        pending = [task for task in source.look().tasks if task.status is TaskStatus.PENDING]
    except SourceError:
        return ()
    done = await find_subjects(home, "Segue-Task")
    titles = {task.key: (task.title, f"Task {task.key}: {task.title}") for task in pending}
    return tuple(key for key, titles in titles.items() if any((key, title) in done for title in titles))


def foresee(app: App, source: Source) -> TaskList:
    """Return the tasks as a run would find them that started now; nothing is written."""
    database = app.database()
    if "://" not in database and not Path(database).exists():
        return source.foresee(SourceHistory())
    with app.store(read_only=True) as store:
        return source.foresee(read_history(store, known_key(store, app, source)))


def find_unrecorded(source: Source, history: SourceHistory) -> list[str]:
    """Return the tasks whose file says that they are done, and neither a run nor the state file does."""
    kept = source.recorded()
    if kept is None:
        return []
    known = {*kept, *history.done}
    return [one.key for one in source.look().tasks if one.status is TaskStatus.DONE and one.key not in known]


def check_ticked(app: App, source: Source, history: SourceHistory) -> None:
    """Refuse marks that nobody knows of, once a run of the source has begun: a person must say so first."""
    if not history.runs or app.loaded.settings.plan_changed != "ask":
        return
    keys = find_unrecorded(source, history)
    if keys:
        raise TickedByNobody(
            name_ticked(keys),
            kept="Nothing was started or changed.",
            hint=f"If that is done: segue run {source.address} --plan-changed keep, once. "
            "If not: open the box again, as `[ ]`",
        )


def name_ticked(keys: Sequence[str]) -> str:
    """Say which tasks are ticked, but were done by no run."""
    verb, them = ("is", "it") if len(keys) == 1 else ("are", "them")
    return f"{list_some(list(keys), 10)} {verb} ticked, but no run did {them}."


def settle_start(
    app: App, source: Source, known: Known, last: Run | None, restart: bool, wanted: Sequence[str] = ()
) -> Past:
    """Return what a run of the source begins with: nothing, if the user wants to start over.

    `wanted` are the tasks that it is about to do.
    """
    settings, history, lost = app.loaded.settings, known.history, known.lost
    restart = restart or bool(lost and settings.plan_changed == "restart")
    said = "" if restart else source.restore(history)
    named = [key for key in known.named if key in wanted]
    if named and not said:
        were = f"{list_some(named, 10)} {'was' if len(named) == 1 else 'were'} done"
        said = f"The state file is missing, so the run starts with {wanted[0]}; commits here say that {were}."
    if restart or (settings.plan_changed == "restart" and source.rewritten() is not None):
        _refuse_running(last)
        source.restart()
        return Past(history, "", _ALL)
    if lost:
        said = "\n".join(filter(None, (said, f"Continued without commits of {_names(lost)}.")))
    return Past(history, said, _begun(history, {**lost, **known.moved}), tuple(lost.values()))


def settle_first(source: Source, run: Run) -> Past:
    """Return what a run begins with whose source has no other runs."""
    history = SourceHistory((run.id,))
    return Past(history, source.restore(history))


def settle_resume(source: Source, known: Known) -> Past:
    """Return what a run continues with."""
    history = known.history
    return Past(history, source.restore(history), _begun(history, {**known.lost, **known.moved}))


def _begun(history: SourceHistory, missing: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tasks that began with a commit that is gone: they begin again."""
    done = set(history.done)
    return tuple(f"task/{key}/" for key in missing if key not in done)


def refuse_absent(store: Store, run: Run) -> None:
    """Refuse to continue a run whose repository is not on this machine."""
    if not Path(run.spec.repo).is_dir():
        raise WorkspaceError(
            f"Run {run.id} works in {run.spec.repo}, which does not exist here.{_other_machine(store, run)}",
            kept="Nothing was changed.",
            hint="If the repository was moved, give the command there. Else continue on the machine where it "
            "began, or clone the repository to that path",
        )


async def _find_missing(
    store: Store, home: Repository, history: SourceHistory, run: Run | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the commits that tasks ended or began with and that the repository lacks, by task.

    Apart from them, those whose work other commits contain, as after a rebase: they have the same trailer.
    """
    done = set(history.done)
    wanted = {key: mark.commit for key, mark in history.marks.items() if mark.commit and key in done}
    for step in store.steps(run.id) if run else ():
        if step.phase == "base" and step.task and step.task not in done:
            wanted[step.task] = read_as(SnapshotOutput, step.output).head
    wanted = {key: commit for key, commit in wanted.items() if commit and commit not in history.without}
    if not home.git_dir.exists():  # it is made when the run can start
        return wanted, {}
    absent = await find_absent(home, set(wanted.values())) if wanted else frozenset()
    missing = {key: commit for key, commit in wanted.items() if commit in absent}
    if not missing:
        return {}, {}
    trailers = await find_trailers(home, "Segue-Step")
    kept = {commit for key, commit in missing.items() if _is_moved(store, history, key, trailers)}
    lost = {key: commit for key, commit in missing.items() if commit not in kept}
    return lost, {key: commit for key, commit in missing.items() if commit in kept}


def _is_moved(store: Store, history: SourceHistory, task: str, trailers: frozenset[str]) -> bool:
    mark = history.marks.get(task)
    if mark is None:
        return False
    steps = [step for step in store.steps(mark.run) if step.task == task and step.phase == "commit"]
    return any(step.token in trailers for step in steps)


def _refusal(
    store: Store, home: Repository, source: Source, run: Run | None, missing: Mapping[str, str]
) -> CommitsMissing:
    elsewhere = _other_machine(store, run) if run else ""
    shallow = "git fetch --unshallow, or " if is_shallow(home) else ""
    return CommitsMissing(
        f"The journal knows commits of {_names(missing)}, but {home.root} does not contain them.{elsewhere}",
        kept="Nothing was started or changed.",
        hint=f"If they are in another clone: push them there, then {shallow}git fetch here. Otherwise: "
        f"segue run {source.address} --plan-changed keep continues with the pending tasks, "
        "--plan-changed restart starts over",
    )


def _names(missing: Mapping[str, str]) -> str:
    named = [f"{key} ({commit[:10]})" for key, commit in missing.items()]
    return f"task{'' if len(named) == 1 else 's'} {list_some(named, 5)}"


def _other_machine(store: Store, run: Run) -> str:
    last = "SELECT owner FROM orchestrator_steps WHERE run_id = ? ORDER BY seq DESC LIMIT 1"
    owners = [str(row["owner"]) for row in store.query(last, [run.id])]
    if not owners or identity.is_here(owners[0]):
        return ""
    return f" Run {run.id} was last worked on by the machine {owners[0].split('/')[0]}."


def _refuse_running(last: Run | None) -> None:
    if last is not None and state_of(last) in (RunState.RUNNING, RunState.PARKED):
        raise Locked(
            f"Run {last.id} of this source is working: it cannot be restarted.",
            kept="Nothing was changed.",
            hint=f"Stop it first: segue stop {last.id}",
        )
