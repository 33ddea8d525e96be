"""The demo says what was recorded, and nothing else."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

import pytest

from segue.cli.run.demo.story import Narrator
from segue.cli.terminal.output import Printer
from segue.domain import events as e
from segue.domain.outcome import Failure, FailureKind
from segue.domain.proof import CheckResult, CheckState, HowSettled
from segue.store import connect
from tests.cli.place import Place
from tests.cli.test_display import lines_of, shown


class Told:
    """What a person saw on a terminal, and what was recorded."""

    def __init__(self, place: Place) -> None:
        self.place, self.folder = place, place.root / "a demo" / "story"
        self.lines = lines_of(shown(place, 80, "demo", "--dir", str(self.folder.parent)))
        self.text = " ".join(" ".join(self.lines).split())
        with connect(str(self.folder / "state" / "segue.db"), read_only=True) as store:
            [run] = store.runs()
            self.events = list(store.events(run.id))

    def all(self, kind: type[e.Event], task: str = "") -> list[e.Recorded]:
        """Events of a kind, of one task or of all."""
        found = [at for at in self.events if isinstance(at.event, kind)]
        return [
            at for at in found if task in ("", getattr(at.event, "task", (at.step or "//").split("/")[1]))
        ]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return Told(Place.make(tmp_path_factory.mktemp("demo")))


def test_it_tells_the_story_in_order_on_80_columns(told: Told) -> None:
    parts = (
        *("Task 1 begins", "Task 2 begins", 'Task 2: the agent says "Done. All tests pass."'),
        *(
            "Task 2: CAUGHT by python",
            '+ @unittest.skip("flaky")',
            "Task 2: the agent is sent back",
        ),
        *("kill -9", "A new Segue continues", "Task 1: its agent outlived Segue", "Task 1 done: PASS"),
        *("Task 2: its agent outlived Segue", "Task 2 done: PASS", "merged into main", "The proof of task 2"),
    )
    assert re.search(".*".join(map(re.escape, parts)), told.text), told.text
    story = told.lines[: [line.startswith("All of it") for line in told.lines].index(True)]
    assert max(map(len, story)) <= 80
    assert len(story) < 50


def test_every_word_is_in_the_database(told: Told) -> None:
    [first, *_] = [at.event for at in told.all(e.CheckRun, "2")]
    [patch, *_] = [at.event for at in told.all(e.PatchMade, "2")]
    assert isinstance(first, e.CheckRun)
    assert isinstance(patch, e.PatchMade)
    assert first.result is not None
    [skipped] = first.result.changed_tests
    assert (first.result.state, skipped.how) == (CheckState.PASSED, HowSettled.UNSETTLED)
    assert skipped.test in told.text
    assert skipped.why in " ".join(told.text.split())
    changed = [line.strip() for line in told.lines if re.match(r" +[+-] ", line)]
    recorded = [re.sub(r"^([+-]) *", r"\1 ", line) for line in patch.diff.splitlines()]
    assert changed
    assert set(changed) <= set(recorded)
    for at in told.all(e.TaskEnded):
        assert isinstance(at.event, e.TaskEnded)
        assert at.event.proof is not None
        said = f"Task {at.event.task} done: PASS ({at.event.proof.level}), commit {str(at.event.commit)[:10]}"
        assert said in told.text
    for at in told.all(e.AgentText):
        assert isinstance(at.event, e.AgentText)
        assert f'"{at.event.text}"' in told.text


def test_the_proof_has_five_lines_and_each_is_recorded(told: Told) -> None:
    at = told.lines.index("The proof of task 2, whose agent cheated first")
    lines = [re.split(r"  +|(?<=now) ", line.strip()) for line in told.lines[at + 1 : at + 6]]
    [end] = [at.event for at in told.all(e.TaskEnded, "2")]
    assert isinstance(end, e.TaskEnded)
    assert end.proof is not None
    [check] = [check for check in end.proof.checks if not check.of]
    assert lines == [
        ["conclusion", f"PASS ({end.proof.level}), decided by checks"],
        [f"checks, {check.seal}", f"{check.command}: {check.passed} tests passed"],
        ["failed before, passes now", *check.proved],
        ["the change sabotaged", "noticed: the check fails"],
        ["marks", f"by its own tests, {check.seal}"],
    ]
    assert (check.noticed, end.proof.held) == (True, None), "it began beside task 1, not after it"


def test_nothing_was_done_twice_although_it_was_killed(told: Told) -> None:
    pids = {
        (at.step, at.event.facts["pid"])
        for at in told.all(e.AgentEnded)
        if isinstance(at.event, e.AgentEnded)
    }
    assert sorted(step for step, _ in pids if step) == [
        "task/1/execute/1",
        "task/2/execute/1",
        "task/2/resolve/1",
    ]
    assert told.all(e.TaskStarted, "2")[0].seq < told.all(e.TaskEnded, "1")[0].seq, "two at once"
    log = ["git", "log", "--format=%s", "main"]
    subjects = subprocess.run(
        log, cwd=told.folder / "repo", capture_output=True, text=True, check=True
    ).stdout
    assert sorted(re.findall("^Task [12]", subjects, re.MULTILINE)) == ["Task 1", "Task 2"]


def test_its_last_line_can_be_typed(told: Told) -> None:
    last = [line for line in told.lines if line][-1]
    done = subprocess.run(
        last, shell=True, cwd=told.place.repo, env=told.place.env, capture_output=True, text=True
    )
    assert last.endswith(" doctor")
    assert "git" in done.stdout, done.stderr


def record(*events: tuple[str, e.Event]) -> list[e.Recorded]:
    return [e.Recorded("r", seq, 1000 * seq, step, event) for seq, (step, event) in enumerate(events, 1)]


def tell(events: Sequence[e.Recorded], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The captions of events."""
    narrator = Narrator(Printer())
    for at in events:
        narrator.tell(at)
    return [line[9:] for line in capsys.readouterr().out.splitlines()]


AGAIN = ("task/3/execute/2", e.StepStarted(1, "t", task="3", phase="execute", attempt=2))
FAILED = CheckResult("make test", 1, "", CheckState.FAILED, "1 test fails: test_a.")
SEQUENCES = {
    "a collision": (
        [("", e.TaskCollided("3", ("1",), ("a.py",), "both change a.py", "again")), AGAIN],
        ["Task 3 collides with 1: both change a.py: it is run again", "Task 3: attempt 2 begins."],
    ),
    "a limit": (
        [("", e.RunParked("3", 4.0)), AGAIN],
        [r"Usage limit: task 3 waits until .*, in 3 s", "Task 3: attempt 2 begins."],
    ),
    "a check fails": (
        [
            ("task/3/check/1", e.CheckRun("3", "make test", 1, result=FAILED)),
            ("task/3/resolve/1", e.StepStarted(1, "t", task="3", phase="resolve")),
        ],
        ["Task 3: make test: failed. 1 test fails: test_a.", "Task 3: the agent is sent back to fix it."],
    ),
    "a crash": (
        [
            (
                "task/3/execute/1",
                e.AgentEnded(False, 139, failure=Failure(FailureKind.CRASH, "segmentation fault")),
            ),
            ("", e.TaskEnded("3", False, "the agent crashed")),
            ("", e.RunEnded("failed")),
        ],
        [
            "Task 3: the agent failed: segmentation fault",
            "Task 3 needs a human: the agent crashed",
            "Run ended: failed",
        ],
    ),
    "an adoption": (
        [
            ("", e.RunResumed("p", "r", "a", "f", last_seen=1)),
            ("task/3/execute/1", e.AgentEnded(True, facts={"adopted": True})),
        ],
        [
            "A new Segue continues the run.",
            "Task 3: its agent outlived Segue: found again, not started twice.",
        ],
    ),
    "nothing of note": (
        [
            ("", e.RunResumed("p", "r", "a", "f")),
            ("task/3/execute/1", e.StepStarted(1, "t", task="3", phase="execute")),
            ("task/3/execute/1", e.AgentEnded(True, 0)),
            (
                "task/3/check/1",
                e.CheckRun("3", "make test", 0, result=CheckResult("make test", 0, "", CheckState.PASSED)),
            ),
            ("", e.RunEnded("done")),
        ],
        [],
    ),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_caption_comes_from_its_event(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    events, expected = SEQUENCES[name]
    captions = tell(record(*events), capsys)
    assert len(captions) == len(expected), captions
    assert all(
        map(re.fullmatch, (re.escape(text) if "*" not in text else text for text in expected), captions)
    )


def test_a_verdict_has_the_changes_of_its_own_task_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    def patch(task: str, line: str) -> tuple[str, e.Event]:
        diff = (
            f"diff --git a/t.py b/t.py\nindex 1..2\n--- a/t.py\n+++ b/t.py\n@@ -1 +1 @@ def\n old\n{line}\n"
        )
        return f"task/{task}/execute/1", e.PatchMade(task, "b", "h", "t", diff)

    check = ("task/3/check/1", e.CheckRun("3", "make test", 1, result=FAILED))
    captions = tell(record(patch("3", "+    skip()"), patch("4", "+other()"), check), capsys)
    assert captions == ["Task 3: make test: failed. 1 test fails: test_a.", "t.py", "  + skip()"]


def test_one_part_or_all_of_them(place: Place) -> None:
    done = place.segue("demo", "story", "--all", code=2)
    assert "Leave out 'story', or --all." in done.stderr
