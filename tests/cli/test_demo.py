"""The demo tells its story from what was recorded, and fails when a part of it did not happen."""

from __future__ import annotations

import re

import pytest

from segue.cli.run.demo.story import recount
from segue.domain import events as e
from segue.store import connect
from tests.cli.place import Place
from tests.cli.test_display import lines_of, shown

SUBJECTS = ("Task 1: a", "Task 2: b", "Merge task 2: b", "Task 3: c", "Start")
PARTS: dict[str, type[e.Event]] = {
    "An agent cheated. It was caught": e.CheckRun,
    "Two tasks were worked on at once.": e.TaskStarted,
    "A usage limit was waited out.": e.RunParked,
    "Segue was killed and continued: 5 agents were started and 3 tasks committed": e.AgentEnded,
    "Tests prove 3 of 3 tasks.": e.TaskEnded,
}
"""How each part begins, and the events without which it did not happen."""


class Told:
    """What a person saw on a terminal, and what was recorded."""

    def __init__(self, place: Place) -> None:
        self.lines = lines_of(shown(place, 80, "demo", "--dir", str(place.root / "demo")))
        with connect(str(place.root / "demo" / "story" / "state" / "segue.db"), read_only=True) as store:
            [self.run] = store.runs()
            self.events = list(store.events(self.run.id))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return Told(Place.make(tmp_path_factory.mktemp("demo")))


def test_it_tells_the_whole_story_on_80_columns(told: Told) -> None:
    text = " ".join(" ".join(told.lines).split())
    for part in PARTS:
        assert f"✓ {part}" in text
    assert re.search(r'Task 2: the agent says "Done. All tests pass." .* Task 2: CAUGHT\. Tests that', text)
    assert re.search(
        r"kill -9 \d+: Segue is dead.* segue resume: a new process.* Task 2: the agent surv", text
    )
    assert "proved by: tests.test_cash.CashTest.test_cash_is_rounded" in text, "the proof card"
    captions = [line for line in told.lines if re.match(r" *\d+\.\d s  |  [✓✗] ", line)]
    assert max(map(len, captions)) <= 80
    assert len(told.lines) < 70


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_did_not_happen_is_not_claimed(told: Told, part: str) -> None:
    assert all(ok for ok, _ in recount(told.run, told.events, SUBJECTS))
    without = [event for event in told.events if not isinstance(event.event, PARTS[part])]
    missing = [text for ok, text in recount(told.run, without, SUBJECTS) if not ok]
    assert any(text.startswith(part.split()[0]) for text in missing), missing


def test_work_that_was_done_twice_is_not_overlooked(told: Told) -> None:
    [missing] = [text for ok, text in recount(told.run, told.events, (*SUBJECTS, "Task 2: b")) if not ok]
    assert missing.startswith("Segue was killed and continued: ")


def test_one_part_or_all_of_them(place: Place) -> None:
    done = place.segue("demo", "story", "--all", code=2)
    assert "Leave out 'story', or --all." in done.stderr
