"""Writes labels into the logs of runs, after they were compared with what is there to be labelled."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.domain.errors import UsageError
from segue.domain.text import suggest
from segue.parts.lab.labels.events import Label, LabelOrigin

if TYPE_CHECKING:
    from segue.store.store import Store

_WORDS = {
    "good": True,
    "right": True,
    "true": True,
    "1": True,
    "bad": False,
    "wrong": False,
    "false": False,
    "0": False,
}
_COLUMNS = ("run_id", "task", "good")
_ENDED = "SELECT task FROM segue_tasks WHERE run_id = ? AND state <> 'open'"
_STEPS = "SELECT DISTINCT step FROM segue_attempts WHERE run_id = ? AND task = ?"
_SAME = "SELECT task, step, good, origin, reason FROM segue_labels WHERE run_id = ?"


class Labelled(Struct, frozen=True):
    """A label, and the run that it is about."""

    run: str
    label: Label


def read_word(word: str) -> bool:
    """Read `good` or `bad`, or another word for one of them."""
    try:
        return _WORDS[word.strip().casefold()]
    except KeyError:
        raise UsageError(f"{word!r} is neither good nor bad.", hint="Write good or bad") from None


def read_csv(text: str, by: str = "") -> list[Labelled]:
    """Read labels from a table with the columns run_id, task and good; step, by and reason may be there."""
    rows = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    missing = [name for name in _COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        raise UsageError(
            f"The table has no column {', '.join(missing)}.",
            hint="Its first line names the columns: run_id,task,good,reason",
        )
    return [_read_row(number, row, by) for number, row in enumerate(rows, 2)]


def _read_row(number: int, row: Mapping[str, str | None], by: str) -> Labelled:
    cell = {name: (value or "").strip() for name, value in row.items() if isinstance(value, str)}
    try:
        good = read_word(cell.get("good", ""))
    except UsageError as problem:
        raise UsageError(f"Line {number}: {problem.message}", kept="Nothing was changed.") from None
    said = (cell.get("by") or by, cell.get("reason", ""), cell.get("step", ""))
    return Labelled(cell.get("run_id", ""), Label(cell.get("task", ""), good, LabelOrigin.FILE, *said))


async def give(store: Store, labels: Sequence[Labelled]) -> int:
    """Write the labels that say something new; all are compared with their runs before the first is written.

    Returns how many were written.
    """
    by_run: dict[str, list[Label]] = {}
    for one in labels:
        by_run.setdefault(one.run, []).append(one.label)
    new = {run: _find_new(store, run, found) for run, found in by_run.items()}
    for run, found in new.items():
        if not found:
            continue
        journal = await store.open(run)
        try:
            for label in found:
                await journal.emit(label)
        finally:
            await store.close(journal)
    return sum(map(len, new.values()))


def _find_new(store: Store, run: str, labels: Iterable[Label]) -> list[Label]:
    """Refuse labels of what is not there, and leave out those that are known."""
    if store.run(run) is None:
        raise UsageError(
            f"There is no run {run!r}.", kept="Nothing was changed.", hint="`segue status --all` lists them"
        )
    tasks = [str(row["task"]) for row in store.query(_ENDED, [run])]
    known = {tuple(row.values()) for row in store.query(_SAME, [run])}
    found = []
    for label in labels:
        if label.task not in tasks:
            raise UsageError(
                f"Run {run} has no task {label.task!r} that has ended.{suggest(label.task, tasks)}",
                kept="Nothing was changed.",
                hint=f"Those that have: segue status {run}",
            )
        if label.step and label.step not in _list_steps(store, run, label.task):
            raise UsageError(
                f"Task {label.task} of run {run} has no attempt {label.step!r}.",
                kept="Nothing was changed.",
                hint=f"Its attempts: {', '.join(_list_steps(store, run, label.task))}",
            )
        row = (label.task, label.step or None, label.good, str(label.origin), label.reason or None)
        if row not in known:
            found.append(label)
    return found


def _list_steps(store: Store, run: str, task: str) -> list[str]:
    return [str(row["step"]) for row in store.query(_STEPS, [run, task])]
