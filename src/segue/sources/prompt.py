"""One sentence as a source: an agent plans its steps; plan and progress are in one file per repository."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from segue.domain.errors import SourceError
from segue.domain.plan import revise
from segue.domain.run import RunKind
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Task, TaskList, TaskStatus
from segue.ports import Outline, Source, SourceRequest
from segue.sources.recognise import recognise
from segue.sources.state_file import CorruptState, read_document, read_fields, restore_state, set_aside
from segue.system.files import exclusive, private_folder, signature, write_atomic

SCHEMA: Literal[1] = 1
_HINT = "Restore the file from a backup, or plan again: segue run PROMPT --restart"
_STORED = ("key", "title", "text", "status", "build_phase", "kind", "kind_is_given", "criteria", "depends_on")


def state_path(state_dir: Path, goal: str, repo: Path) -> Path:
    """Return the file that contains the plan for a goal in a repository."""
    return state_dir / "prompts" / f"{pair_key(goal, repo)}.json"


def pair_key(goal: str, repo: Path) -> str:
    """Return the name of the (goal, repository) pair."""
    pair = json.dumps([goal.strip(), os.path.realpath(repo)])
    return "prompt-" + hashlib.sha256(pair.encode("utf-8", "surrogatepass")).hexdigest()[:20]


class _Revision(Struct, frozen=True):
    """A plan as it was before another one."""

    steps: tuple[Task, ...]
    run: str | None = None


class _State(Struct, frozen=True):
    """What the file says."""

    steps: tuple[Task, ...]
    revisions: tuple[_Revision, ...]
    run: str | None = None
    seq: int = 0
    schema: Literal[1] = SCHEMA

    @property
    def edited(self) -> bool:
        """False: people edit the plan with a command, or before a run."""
        return False

    @property
    def completed(self) -> list[str]:
        """The steps that are done."""
        return [step.key for step in self.steps if step.status is TaskStatus.DONE]

    @property
    def keys(self) -> list[str]:
        """The numbers of all steps that there ever were."""
        return [step.key for plan in self.replaced for step in plan.steps]

    @property
    def replaced(self) -> tuple[_Revision, ...]:
        """The plans before the next one: those there were, and the one there is."""
        return (*self.revisions, _Revision(self.steps, self.run)) if self.steps else self.revisions


class PromptSource(Source):
    """A goal in one repository, and the plan an agent has made for it."""

    kind = "prompt"
    in_files = True
    run_kind = RunKind.BUILD
    usual_flow = "build"

    @classmethod
    def matches(cls, request: SourceRequest) -> bool:
        """Return whether a sentence was given: several words that are no file."""
        return recognise(request) == cls.kind

    @classmethod
    def open(cls, request: SourceRequest) -> Self:
        """Open the plan for the goal; the goal is stored in files, in the database and in names."""
        goal = request.redact(request.named or "")
        return cls(goal, request.repo, state_path(request.state_dir, goal, request.repo))

    def __init__(self, goal: str, repo: Path, path: Path) -> None:
        self.goal = goal.strip()
        self.repo = Path(os.path.realpath(repo))
        self.path = path
        self.key = pair_key(goal, repo)
        self._changes = 0
        self._seen: object = None

    @property
    def address(self) -> str:
        """The goal itself."""
        return self.goal

    @property
    def outline(self) -> Outline:
        """Itself: an agent plans its tasks."""
        return self

    def tasks(self) -> TaskList:
        """Return the steps of the plan; none before there is one."""
        state = self._load()
        return TaskList(state.steps if state else ())

    def is_planned(self) -> bool:
        """Return whether there is a plan."""
        state = self._load()
        return state is not None and (bool(state.steps) or state.run is not None)  # no run: restarted

    def stamp(self) -> object:
        """Return the same value as long as the file is as this object left it."""
        now = signature(self.path)
        if now != self._seen:
            self._seen = now
            self._changes += 1
        return self._changes

    def context(self, task: Task) -> str:
        """Return the goal, and the titles of all steps with their states."""
        lines = [
            f"[{'this step' if step.key == task.key else step.status}] {step.key}: {step.title}"
            for step in self.tasks().tasks
        ]
        return "\n".join([f"The goal: {self.goal}", "", "The steps of the plan:", *lines])

    def mark(self, task: Task, completion: Completion) -> None:
        """Store that a step is done or skipped."""
        key = task.key
        with exclusive(self._lock()):
            state = self._load()
            if state is None or all(step.key != key for step in state.steps):
                raise SourceError(f"There is no step {key} in the plan {self.path}.")
            steps = tuple(
                replace(step, status=completion.status) if step.key == key else step for step in state.steps
            )
            mine = self._seen == signature(self.path)
            self._write(_State(steps, state.revisions, completion.run, seq=completion.seq))
            if mine:
                self._seen = signature(self.path)

    def revise(self, steps: Sequence[Task], run: str) -> None:
        """Replace all steps that are not completed; the plan as it was is kept beside the new one."""
        with exclusive(self._lock()):
            state = self._load() or _State((), ())
            new = revise(state.steps, steps)
            if new == state.steps:
                return
            self._write(_State(new, state.replaced, run, seq=state.seq if state.run == run else 0))

    def last_number(self) -> int:
        """Return the highest number that a step has ever had: new steps are counted from there."""
        state = self._load()
        return max(map(int, state.keys), default=0) if state else 0

    def restart(self) -> None:
        """Plan again; the steps of the plan as it was are kept beside the new one."""
        with exclusive(self._lock()):
            try:
                state = self._load() or _State((), ())
            except CorruptState:
                set_aside(self.path)
                state = _State((), ())
            self._write(_State((), state.replaced))

    def restore(self, history: SourceHistory) -> str:
        """Rebuild a plan that is missing, unreadable or older than the journal; believe any other."""

        def rebuild(_old: _State | None) -> _State:
            return self._rebuild(history)

        return restore_state(self.path, history, self._load, rebuild, lambda: set_aside(self.path))

    def _rebuild(self, history: SourceHistory) -> _State:
        marks = history.marks
        *old, current = history.plans or ((),)
        steps = tuple(
            replace(step, status=marks[step.key].status) if step.key in marks else step for step in current
        )
        run, seq = history.last
        revisions = tuple(_Revision(plan, run) for plan in old)
        state = _State(steps, revisions, run, seq=seq)
        with exclusive(self._lock()):
            self._write(state)
        return state

    def _lock(self) -> Path:
        return private_folder(self.path.parent) / f"{self.path.name}.lock"

    def _load(self) -> _State | None:
        document = read_document(self.path, SCHEMA, _HINT)
        if document is None:
            return None
        state = read_fields(self.path, _State, document, _HINT)
        wrong = [key for key in state.keys if not key.isdecimal() or int(key) < 1]
        if wrong:
            raise CorruptState(self.path, f"step {wrong[0]!r} is malformed", _HINT)
        return state

    def _write(self, state: _State) -> None:
        document = {
            "schema": SCHEMA,
            "goal": self.goal,
            "repo_path": str(self.repo),
            "run": state.run,
            "seq": state.seq,
            "steps": _documents(state.steps),
            "revisions": [{"steps": _documents(one.steps), "run": one.run} for one in state.revisions],
        }
        write_atomic(self.path, json.dumps(document, indent=2).encode())


def _documents(steps: Sequence[Task]) -> list[dict[str, Any]]:
    """Return steps as the file has them."""
    return [{name: one[name] for name in _STORED} for one in map(to_builtins, steps)]
