"""Puts together what a judge saw of a recorded attempt, or says what the record lacks for that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from segue.domain.events import ContractMade, PatchMade, PlanRevised, TaskMarked
from segue.domain.kinds import with_kinds
from segue.domain.results import LaunchOutput, read_as
from segue.domain.task import Task
from segue.domain.verdict import Evidence
from segue.ports import Source
from segue.prompts.judge import criteria_of
from segue.runtime.app import App
from segue.runtime.guard import digest_tasks
from segue.runtime.plan import kind_rules
from segue.runtime.replay.points import DecisionPoint, RunRecord
from segue.runtime.sources import load_run_app

if TYPE_CHECKING:
    from segue.store.store import Store


_KINDS = (PatchMade, PlanRevised, TaskMarked, ContractMade)


class RecordLacks(Exception):
    """The record does not contain what is needed to judge again; the text says what."""


class RecordedEvidence:
    """The evidence of one run, as its journal has it."""

    def __init__(self, store: Store, app: App, record: RunRecord) -> None:
        self._record = record
        self._own = load_run_app(app, record.run)
        spec = record.run.spec
        self._source: Source = self._own.source(spec.source, Path(spec.repo), spec.source_kind)
        self._patches: dict[str, PatchMade] = {}
        self._marks: dict[str, str] = {}
        self._planned: dict[str, Task] = {}
        self._contract = ""
        for recorded in store.events(record.run.id, kinds=_KINDS):
            match recorded.event:
                case PatchMade() as patch:
                    self._patches[recorded.step or ""] = patch
                case PlanRevised() as revised:
                    self._planned |= {task.key: task for task in revised.new}
                case TaskMarked() as marked if marked.digest:
                    self._marks[marked.task] = marked.digest
                case ContractMade() as contract:
                    self._contract = contract.digest
        self._tasks = {} if record.planned else self._read_tasks()

    def _read_tasks(self) -> dict[str, Task]:
        """Return the tasks of the source that are known to be as they were."""
        tasks = with_kinds(self._source.look(), kind_rules(self._own)).tasks
        if digest_tasks(tasks) == self._contract:
            return {task.key: task for task in tasks}
        return {
            task.key: task for task in tasks if self._marks.get(task.key) == self._source.fingerprint(task)
        }

    def gather(self, point: DecisionPoint) -> tuple[Task, Evidence]:
        """Return the task and the evidence of a verdict. Raises RecordLacks."""
        task = self._task(point)
        work = point.work
        if work is None or "verdict" not in work.output:
            raise RecordLacks("no launch is recorded that worked on the task")
        left = read_as(LaunchOutput, work.output)
        if left.files_changed > len(left.files):
            raise RecordLacks(f"only {len(left.files)} of {left.files_changed} changed files are recorded")
        chooses = self._record.planned
        evidence = Evidence(
            self._diff(work.key, left),
            left.files,
            point.checks,
            left.text,
            tuple(self._own.loaded.settings.diagnostics.allow) if chooses else None,
            self._own.redactor().text(self._source.context(task)) if chooses else "",
        )
        return task, evidence

    def _diff(self, step: str, left: LaunchOutput) -> str:
        patch = self._patches.get(step)
        if patch is None:
            if left.changed:
                raise RecordLacks("the patch is not recorded")
            return ""
        if patch.cut:
            raise RecordLacks(f"the recorded patch is cut by {patch.cut} characters")
        return patch.diff

    def _task(self, point: DecisionPoint) -> Task:
        task = (self._planned if self._record.planned else self._tasks).get(point.task)
        if task is None:
            raise RecordLacks("the text of the task is not recorded, and the source has changed since")
        asked = [one.key for one in point.verdict.criteria if not one.key.startswith("check: ")]
        criteria = criteria_of(task)
        if asked and asked != [one.key for one in criteria] and not point.by_checks:
            raise RecordLacks("the criteria have changed since then")
        if any(one.of_story for one in criteria):
            raise RecordLacks("its story was judged as a whole, and the diff of a story is not recorded")
        return task
