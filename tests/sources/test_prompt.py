"""One prompt as a source: the plan on disk is what every object sees, and what is done stays done."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from segue.domain.errors import SourceError
from segue.domain.task import Completion, Task, TaskStatus
from segue.domain.verdict import Criterion
from segue.ports import SourceRequest
from segue.sources.prompt import PromptSource, state_path
from segue.sources.recognise import is_prompt
from tests.conformance.source import check_source

GOAL = 'Build "it" \ud800 with \0 and ```fences```\n<<<end of goal>>>'
STRANGE = st.text(st.characters(codec=None), max_size=20)


def source(folder: Path, goal: str = GOAL) -> PromptSource:
    return PromptSource(goal, folder / "repo", state_path(folder, goal, folder / "repo"))


def step(key: int, title: str = "Make it", text: str = "") -> Task:
    return Task(str(key), title, text, criteria=(Criterion(f"{key}/AC1", text),), build_phase="setup")


def done(run: str = "r", status: TaskStatus = TaskStatus.DONE) -> Completion:
    return Completion(status, run, 1)


def test_it_keeps_the_promises_of_every_source(tmp_path: Path) -> None:
    source(tmp_path).revise([step(1), step(2), step(3)], "check")
    request = SourceRequest(GOAL, tmp_path / "repo", tmp_path, tmp_path)
    check_source(lambda: source(tmp_path), request)


@settings(deadline=None)
@given(STRANGE, STRANGE, STRANGE)
def test_any_text_comes_back_from_disk(goal: str, title: str, text: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        written = [step(1, title, text)]
        source(folder, goal).revise(written, "r")
        again = source(folder, goal)
        assert list(again.tasks().tasks) == written
        assert again.goal == goal.strip()
        assert json.loads(again.path.read_bytes())["goal"] == goal.strip()


def test_a_change_by_somebody_else_shows_in_the_stamp(tmp_path: Path) -> None:
    mine = source(tmp_path)
    mine.revise([step(1), step(2)], "r")
    before = mine.stamp()
    mine.mark(step(1), done())
    assert mine.stamp() == before
    source(tmp_path).mark(step(2), done())
    assert mine.stamp() != before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{ torn",
        "[]",
        '{"schema": 2, "run": null, "steps": [], "revisions": []}',
        '{"schema": 1, "run": null, "steps": [], "revisions": [1]}',
        '{"schema": 1, "run": null, "steps": 3, "revisions": []}',
        '{"schema": 1, "run": null, "steps": [{}], "revisions": []}',
        "[" * 100_000,
        "\xff",
    ],
)
def test_a_file_that_cannot_be_read_stops_us(tmp_path: Path, text: str) -> None:
    broken = source(tmp_path)
    broken.path.parent.mkdir(parents=True)
    broken.path.write_bytes(text.encode("latin-1"))
    for look in (broken.tasks, broken.is_planned, broken.last_number):
        with pytest.raises(SourceError, match="is corrupted"):
            look()


class Plans(RuleBasedStateMachine):
    """Two objects on the same file, against a model in memory."""

    @initialize()
    def begin(self) -> None:
        self.place = tempfile.TemporaryDirectory()
        self.objects = [source(Path(self.place.name)), source(Path(self.place.name))]
        self.steps: list[Task] = []
        self.old: list[list[Task]] = []
        self.highest = 0

    def teardown(self) -> None:
        self.place.cleanup()

    def ended(self) -> list[Task]:
        return [task for task in self.steps if task.status is not TaskStatus.PENDING]

    @rule(who=st.booleans(), new=st.integers(0, 3), data=st.data())
    def revise(self, who: bool, new: int, data: st.DataObject) -> None:
        waiting = [task for task in self.steps if task.status is TaskStatus.PENDING]
        kept = data.draw(st.lists(st.sampled_from(waiting), unique_by=id)) if waiting else []
        last = self.objects[who].last_number()
        fresh = [step(last + number, data.draw(STRANGE)) for number in range(1, new + 1)]
        attacked = [step(int(task.key), "rewritten") for task in self.ended()[:1]]
        self.objects[who].revise([*attacked, *kept, *fresh], "r")
        planned = [*self.ended(), *kept, *fresh]
        if planned != self.steps and self.steps:
            self.old.append(self.steps)
        self.steps = planned

    @precondition(lambda self: self.steps)
    @rule(who=st.booleans(), status=st.sampled_from([TaskStatus.DONE, TaskStatus.SKIPPED]), data=st.data())
    def mark(self, who: bool, status: TaskStatus, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(self.steps))
        self.objects[who].mark(task, done(status=status))
        place = self.steps.index(task)
        self.steps = [*self.steps]
        self.steps[place] = Task(
            task.key, task.title, task.text, status, criteria=task.criteria, build_phase=task.build_phase
        )

    @precondition(lambda self: self.steps)
    @rule(who=st.booleans(), data=st.data())
    def record(self, who: bool, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(self.steps))
        self.objects[who].record(task, done(status=TaskStatus.PENDING))

    @rule(who=st.booleans())
    def somebody_else_marks(self, who: bool) -> None:
        with pytest.raises(SourceError):
            self.objects[who].mark(step(10_000), done())

    @invariant()
    def all_objects_see_the_same(self) -> None:
        fresh = source(Path(self.place.name))
        for one in (*self.objects, fresh):
            assert list(one.tasks().tasks) == self.steps
        last = fresh.last_number()
        assert last >= self.highest, "a number could be given out twice"
        self.highest = last
        if fresh.is_planned():
            kept = json.loads(fresh.path.read_bytes())["revisions"]
            titles = [[task.title for task in plan] for plan in self.old]
            assert [[task["title"] for task in plan["steps"]] for plan in kept] == titles


TestPlans = Plans.TestCase
TestPlans.settings = settings(deadline=None, stateful_step_count=12)


@pytest.mark.parametrize(
    ("words", "is_sentence"),
    [
        ("Fix the typos in README.md", True),
        ("Improve README.md", True),
        ("Write a changelog and call it CHANGES.md", True),
        ("my plan.md", False),
        ("the long plan.md", False),
        ("plan.md", False),
        ("Build a shop", True),
    ],
)
def test_a_sentence_may_end_with_the_name_of_a_file(tmp_path: Path, words: str, is_sentence: bool) -> None:
    (tmp_path / "README.md").touch()
    (tmp_path / "the long plan.md").touch()
    assert is_prompt(words, tmp_path) is is_sentence
