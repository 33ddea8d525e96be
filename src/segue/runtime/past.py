"""What is known of a source when a run of it starts or resumes, and whether repository and files agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.domain.amounts import list_some
from segue.domain.errors import Locked, SourceError, UsageError, WorkspaceError
from segue.domain.results import SnapshotOutput, read_as
from segue.domain.run import Run, RunState
from segue.domain.source import SourceHistory
from segue.domain.task import Task, TaskList, TaskStatus
from segue.runtime.app import App
from segue.runtime.history import read_history
from segue.runtime.moved import known_key
from segue.sources.recorded import RecordedSource, is_text_key
from segue.system import identity
from segue.system.git.remotes import find_absent, find_subjects, find_trailers, is_shallow
from segue.system.git.repository import Repository
from segue.view.load import state_of

if TYPE_CHECKING:
    from segue.store.store import Store


_ALL = ("run/", "task/")


class CommitsMissing(UsageError):
    """The journal names commits that the repository does not contain; the user must choose."""


class TicksWithoutRecord(UsageError):
    """Tasks are marked as done that no run did; the user must say whether they are."""


class Past(Struct, frozen=True):
    """What is known about a source when a run of it starts."""

    history: SourceHistory = SourceHistory()
    message: str = ""
    """What to say about its progress file."""
    redo: tuple[str, ...] = ()
    """The steps of the unfinished run that do not count any more, by the beginnings of their keys."""
    without: tuple[str, ...] = ()
    """The commits that are missing, where the user wants to continue without them."""

    @property
    def is_restart(self) -> bool:
        """Whether everything is done again."""
        return self.redo == _ALL


class Known(Struct, frozen=True):
    """What the journal knows about a source, and which commits of it the repository lacks, by task."""

    history: SourceHistory
    lost: dict[str, str] = {}
    moved: dict[str, str] = {}
    """Those whose work other commits contain."""
    named: tuple[str, ...] = ()
    """Tasks that commits here name, although neither the journal nor a progress file knows of any."""


async def look_back(
    app: App,
    store: Store,
    home: Repository,
    source: RecordedSource,
    last: Run | None,
    *,
    continues: bool = True,
    restart: bool = False,
) -> Known:
    """Read what is known about a source; raises CommitsMissing if its work is not in this repository.

    `last` is its last run, `continues` says whether that one is to be continued.
    """
    history = read_history(store, last.source_key if last else source.key, details=True)
    begun = last if continues else None
    lost, moved = ({}, {}) if restart else await _find_missing(store, home, history, begun)
    if lost and app.loaded.settings.plan_changed == "ask":
        raise _refusal(store, home, source, last, lost)
    source.begin(history, restart=restart)
    named = () if restart or history.runs or source.recorded() else await _find_named(home, source)
    return Known(history, lost, moved, named)


async def _find_named(home: Repository, source: RecordedSource) -> tuple[str, ...]:
    """Return the pending tasks that commits here say were done; their words tell them from other plans."""
    try:
        pending = [task for task in source.look().tasks if task.status is TaskStatus.PENDING]
    except SourceError:
        return ()
    done = await find_subjects(home, "Segue-Task") if source.files.contract else frozenset()
    titles = {task.key: (task.title, f"Task {task.key}: {task.title}") for task in pending}
    return tuple(key for key, titles in titles.items() if any((key, title) in done for title in titles))


def preview(app: App, source: RecordedSource) -> TaskList:
    """Return the tasks as a run would find them that started now; nothing is written."""
    database = app.database()
    if "://" in database or Path(database).exists():
        with app.store(read_only=True) as store:
            source.begin(read_history(store, known_key(store, app, source)))
    return source.look()


def check_ticked(app: App, source: RecordedSource, history: SourceHistory) -> None:
    """Refuse ticks without a record, once a run of the source has begun: a person must say so first.

    A box without an id is believed: no record could name it.
    """
    if not history.runs or app.loaded.settings.plan_changed != "ask":
        return
    tasks = [task for task in source.unrecorded() if not is_text_key(task.key)]
    if tasks:
        raise TicksWithoutRecord(
            name_ticked(tasks),
            kept="Nothing was started or changed.",
            hint=f"If that is done: segue run {source.address} --plan-changed keep, once. "
            "If not: open the box again, as `[ ]`",
        )


def name_ticked(tasks: Sequence[Task]) -> str:
    """Say which tasks are ticked, but were done by no run."""
    verb, them = ("is", "it") if len(tasks) == 1 else ("are", "them")
    return f"{list_some([name_task(task) for task in tasks], 10)} {verb} ticked, but no run did {them}."


def name_task(task: Task) -> str:
    """Return what people know a task by: its id, or its words where it has none."""
    return f"“{task.title}”" if is_text_key(task.key) else task.key


def settle_start(
    app: App,
    source: RecordedSource,
    known: Known,
    last: Run | None,
    restart: bool,
    wanted: Sequence[str] = (),
) -> Past:
    """Return what a run of the source begins with: nothing, if the user wants to start over.

    `wanted` are the tasks that it is about to do.
    """
    settings, history, lost = app.loaded.settings, known.history, known.lost
    again = settings.plan_changed == "restart"
    if restart or (again and (lost or source.changed())):
        _refuse_running(last)
        source.restart()
        return Past(history, "", _ALL)
    message = source.take_message()
    named = [key for key in known.named if key in wanted]
    if named and not message:
        were = f"{list_some(named, 10)} {'was' if len(named) == 1 else 'were'} done"
        message = (
            f"The state file is missing, so the run starts with {wanted[0]}; commits here say that {were}."
        )
    if lost:
        message = "\n".join(filter(None, (message, f"Continued without commits of {_names(lost)}.")))
    return Past(history, message, _begun(history, {**lost, **known.moved}), tuple(lost.values()))


def settle_first(source: RecordedSource, run: Run) -> Past:
    """Return what a run begins with whose source has no other runs."""
    history = SourceHistory((run.id,))
    source.begin(history)
    return Past(history, source.take_message())


def settle_resume(source: RecordedSource, known: Known) -> Past:
    """Return what a run continues with."""
    history = known.history
    return Past(history, source.take_message(), _begun(history, {**known.lost, **known.moved}))


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
    store: Store, home: Repository, source: RecordedSource, run: Run | None, missing: Mapping[str, str]
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
