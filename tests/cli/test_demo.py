"""The demo says what was recorded, and nothing else."""

from __future__ import annotations

import re
import subprocess

import pytest

from segue.domain import events as e
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
