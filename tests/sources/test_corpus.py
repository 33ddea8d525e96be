"""Every task file of the corpus is read as a person would, and ticked with the smallest change."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from segue.domain.errors import SourceError, TwoLists
from segue.domain.task import TaskStatus
from segue.sources.speckit.tasks import mark_task, parse, refusal
from tests.sources.corpus.generate import generated
from tests.sources.speckit_files import feature, speckit

SIGNS = {TaskStatus.PENDING: "", TaskStatus.DONE: "*", TaskStatus.SKIPPED: "-", TaskStatus.CANCELLED: "~"}


def written() -> Iterator[tuple[str, bytes, str]]:
    text = (Path(__file__).parent / "corpus" / "written.txt").read_text()
    for part in text.split("%%% ")[1:]:
        head, content = part.split("\n", 1)
        name, expected = head.split(" | ")
        yield name, content.encode(), expected


CORPUS = [*written(), *generated()]
IDS = [name for name, _, _ in CORPUS]


def summary(data: bytes) -> str:
    """What was understood, on one line: keys with signs for their states, and the lines of notices."""
    parsed = parse(data)
    refused = refusal(parsed, "tasks.md")
    if refused:
        return "two lists" if isinstance(refused, TwoLists) else "refused"
    keys = " ".join(f"{task.key}{SIGNS[task.status]}" for task in parsed.tasks)
    lines = ",".join(str(notice.line) for notice in parsed.notices)
    return f"{keys} !{lines}" if lines else keys


def test_the_corpus_is_large() -> None:
    assert len(CORPUS) >= 150
    assert len(set(IDS)) == len(IDS)


def test_it_is_read_as_a_person_would() -> None:
    assert {name: summary(data) for name, data, _ in CORPUS} == {name: read for name, _, read in CORPUS}


@pytest.mark.thorough
def test_ticking_every_task_changes_nothing_but_marks() -> None:
    for name, data, _ in CORPUS:
        _tick_everything(name, data)


def _tick_everything(name: str, data: bytes) -> None:
    parsed, now = parse(data), data
    words = [(task.key, task.title, task.fingerprint) for task in parsed.tasks]
    pending = [task.key for task in parsed.tasks if task.status is TaskStatus.PENDING]
    for key in pending:
        known = parse(now)
        now = mark_task(now, known, next(task for task in known.tasks if task.key == key), True)
    after = parse(now)
    assert [(task.key, task.title, task.fingerprint) for task in after.tasks] == words, name
    assert all(task.status is not TaskStatus.PENDING for task in after.tasks), name
    before_lines, after_lines = data.splitlines(), now.splitlines()
    assert len(before_lines) == len(after_lines), name
    changed = [(a, b) for a, b in zip(before_lines, after_lines, strict=True) if a != b]
    assert len(changed) == len(pending), name
    for old, new in changed:
        edits = [
            code
            for code in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
            if code[0] != "equal"
        ]
        assert sum(max(edit[2] - edit[1], edit[4] - edit[3]) for edit in edits) <= len("Not Started"), name


@pytest.mark.thorough
def test_showing_and_running_agree(tmp_path: Path) -> None:
    for number, (name, data, expected) in enumerate(CORPUS):
        _compare(tmp_path / str(number), name, data, expected)


def _compare(folder: Path, name: str, data: bytes, expected: str) -> None:
    folder.mkdir()
    feature(folder, data)
    shown = speckit(folder).look()
    if expected in ("refused", "two lists"):
        with pytest.raises(SourceError) as caught:
            speckit(folder).tasks()
        assert shown.refusal is not None, name
        assert shown.refusal.message == caught.value.message, name
    else:
        run = speckit(folder).tasks()
        assert shown.refusal is None, name
        assert shown.tasks == run.tasks, name
        assert shown.read_as == run.read_as, name
