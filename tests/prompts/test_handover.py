"""What a task is told of earlier ones: what they really did, the most relevant first, within a size."""

from __future__ import annotations

from segue.domain.graph import Dependency, WaitKind
from segue.domain.results import WorkNote
from segue.domain.task import Task
from segue.prompts.handover import describe_handover

NOTES = {
    "1": WorkNote(
        ("shop.py",), "shop.py:\n  def price_of(book: Book) -> int", "Cents, not euros.", ("no test",)
    ),
    "2": WorkNote(("page.py",), "page.py:\n  def render() -> str", "I left the footer out."),
    "3": WorkNote(("README.md",)),
}


def test_names_words_and_demands_are_told() -> None:
    told = describe_handover(NOTES, Task("4", "Add a basket", "Do it."), 4096)
    assert told.splitlines()[0] == "- 3: README.md"
    assert "    def price_of(book: Book) -> int" in [line.removeprefix("  ") for line in told.splitlines()]
    assert "  It said: Cents, not euros." in told
    assert "  It was sent back for:\n    no test" in told


def test_what_a_task_waits_for_comes_first_then_whose_files_it_names() -> None:
    task = Task(
        "4",
        "Add a basket",
        "Change page.py.",
        depends_on=(Dependency(("1",), WaitKind.STATED, "it says so"),),
    )
    lines = describe_handover(NOTES, task, 4096).splitlines()
    heads = [line for line in lines if line.startswith("- ")]
    assert heads == ["- 1 (this task waits for it): shop.py", "- 2: page.py", "- 3: README.md"]


def test_it_never_takes_more_than_its_size() -> None:
    notes = {str(number): WorkNote((f"f{number}.py",), "x" * 300, "é" * 100) for number in range(40)}
    for size in (0, 50, 400, 1000, 4096):
        told = describe_handover(notes, Task("40", "Next", "Do it."), size)
        assert len(told.encode()) <= size
    assert "(30 more tasks before this one are done)" in describe_handover(notes, Task("40", "N", "x"), 2200)
