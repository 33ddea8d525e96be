"""Reads tasks.md of a Spec Kit feature: which boxes are tasks, what belongs to each, what is none."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.errors import SourceError
from segue.domain.task import Notice, TaskStatus
from segue.sources.speckit.ids import Named, atoms, is_struck, named
from segue.sources.speckit.lines import (
    Heading,
    Line,
    heading,
    independent_test,
    plain,
    read_lines,
    stories_in,
    unclosed,
)
from segue.sources.speckit.near import near_misses
from segue.sources.strict_text import strict_text

# `[P]` is Spec Kit's label for tasks that may be done in parallel, never a box.
_BOX = re.compile(r"(\s*)(?:[-*+]|[0-9]{1,9}[.)])\s+\[([^\[\]P])\]\s+(?=\S)(.*)", re.DOTALL)
_MARKUP = re.compile(r"\s*(?:[-*+•#>|`~<_]|[0-9]{1,9}[.)]\s)")
_PHASE = re.compile(r"phase|fase|étape|etapa|этап|фаза|阶段|階段|フェーズ|단계|giai đoạn", re.IGNORECASE)
_CHECKLIST = re.compile(
    r"check-?\s?list|checkliste|чек-?лист|清单|檢查|检查|チェックリスト|체크리스트"
    r"|lista de (?:verifica|chequeo)|liste de contrôle",
    re.IGNORECASE,
)
_CHECKS = re.compile(
    r"accept|criteri|definition of done|validat|verif|review|\bgates?\b|prerequisit|deploy|success"
    r"|验收|受け入れ|인수|aceptación|aceitação|akzeptanz|критери",
    re.IGNORECASE,
)
_NOTE = re.compile(
    r"\s*(?:>|(?=\*\*(?:NOTE|IMPORTANT|CRITICAL|TDD)\b)|(?=⚠))\s*(.*\btests?\b.*)", re.IGNORECASE
)
_TESTS = re.compile(r"[\W\d]*tests?\b", re.IGNORECASE)
_IMPLEMENTATION = re.compile(r"\bimplement", re.IGNORECASE)
_STATUS = {" ": TaskStatus.PENDING, "x": TaskStatus.DONE, "X": TaskStatus.DONE, "-": TaskStatus.SKIPPED}


class BoxTask(Struct, frozen=True):
    """A task as it is in tasks.md."""

    key: str
    title: str
    text: str
    """The text after the box, and the lines that belong to it."""
    status: TaskStatus
    line: int
    offset: int
    """The byte between the brackets of its box."""
    mark: str
    labels: tuple[str, ...] = ()
    stories: tuple[str, ...] = ()
    phase: str = ""
    section: str = ""
    """The headings above it, with a note below them and what the section comes before, if that says more."""

    @property
    def id(self) -> str:
        """The key without the number that tells tasks with the same id apart."""
        return self.key.split("#")[0]

    @property
    def fingerprint(self) -> str:
        """Changes with the words of the task's own line."""
        return fingerprint(self.text)


class ParsedTasks(Struct, frozen=True):
    """A tasks.md as it was understood; `seen` says what looked like tasks if there are none."""

    tasks: tuple[BoxTask, ...]
    notices: tuple[Notice, ...] = ()
    seen: tuple[str, ...] = ()
    independent_tests: Mapping[str, str] = field(default_factory=dict)
    """How each story is tried out on its own, by its key."""

    @property
    def tick(self) -> bytes:
        """The mark this file uses for done."""
        return b"X" if any(task.mark == "X" for task in self.tasks) else b"x"


class _Box(Struct, frozen=True):
    """A box somewhere in the file, under the headings that stand above it."""

    line: Line
    indent: int
    mark: str
    column: int
    rest: str
    headings: tuple[Heading, ...]
    note: str
    named: Named | None


def parse(data: bytes, name: str = "tasks.md") -> ParsedTasks:
    """Understand the file. Only text that is not UTF-8 is refused here."""
    lines = read_lines(strict_text(data, name))
    boxes = list(_boxes(lines))
    notices = list(_hiding(lines))
    with_id = [box for box in boxes if box.named]
    seen = near_misses(lines) if not with_id else {}
    if with_id:
        chosen = list(_without_references(with_id, notices))
    elif not seen:
        chosen = _top_level(boxes)
    else:
        chosen = []
    starts = {box.line.number for box in chosen}
    before = _sections_before(boxes)
    tasks = _numbered([_task(box, _details(lines, box, starts), before) for box in chosen], notices)
    notices += _remarks(tasks)
    if with_id:
        notices += _without_id(boxes, tasks)
    elif tasks:
        text = f"No box in this file has an id such as T001: {len(tasks)} boxes are read as tasks."
        notices.append(Notice(tasks[0].line, text + " Their keys are made from their texts."))
    seen_texts = [f"{count} {what}" for what, count in seen.items()]
    if boxes and not tasks:
        seen_texts.append(f"{len(boxes)} boxes that are no tasks")
    by_line = tuple(sorted(notices, key=lambda notice: notice.line))
    return ParsedTasks(tuple(tasks), by_line, tuple(seen_texts), _independent_tests(lines))


def ticked(data: bytes, task: BoxTask, mark: bytes) -> bytes:
    """The file with one byte changed: the mark of this task."""
    return data[: task.offset] + mark + data[task.offset + 1 :]


def fingerprint(text: str) -> str:
    """Names the first line of a task's text, however it is spaced."""
    words = " ".join(text.split("\n", 1)[0].split())
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def refusal(parsed: ParsedTasks, name: str) -> SourceError:
    """Why a file without tasks is no finished file: it says what was seen instead."""
    instead = ", ".join(parsed.seen)
    found = f"seen were {instead}, but no box with an id" if instead else "it has no box such as `- [ ] T001`"
    return SourceError(
        f"No tasks were found in {name}: {found}.",
        kept="Nothing was changed.",
        hint="Write each task as `- [ ] T001 What to do`, or run /speckit.tasks again.",
    )


def _boxes(lines: Sequence[Line]) -> Iterator[_Box]:
    above: list[Heading] = []
    note = ""
    for line in lines:
        if not note and (told := _NOTE.match(line.text)):
            note = " ".join(told[1].replace("**", "").split())[:200]
        if line.block:
            continue
        if head := heading(line):
            above = [*(other for other in above if other.level < head.level), head]
            note = ""
        elif "[" in line.text and (found := _BOX.match(line.text)):
            rest = found[3].rstrip()
            yield _Box(line, line.indent, found[2], found.start(2), rest, tuple(above), note, named(rest))


def _independent_tests(lines: Sequence[Line]) -> dict[str, str]:
    """Return the independent test of each story: below the heading that names it."""
    found: dict[str, str] = {}
    stories: tuple[str, ...] = ()
    for index, line in enumerate(lines):
        if head := heading(line):
            stories = stories_in(head.text) or (() if head.level <= 2 else stories)
        elif stories and (text := independent_test(lines, index)):
            for story in stories:
                found.setdefault(story, text)
    return found


def _sections_before(boxes: Sequence[_Box]) -> dict[int, str]:
    """Return for each heading of tests, by its line, the implementation that follows in the same phase."""
    heads = list(dict.fromkeys(box.headings for box in boxes if box.headings))
    found: dict[int, str] = {}
    for place, headings in enumerate(heads):
        if not _TESTS.match(headings[-1].text):
            continue
        siblings = (other[-1].text for other in heads[place + 1 :] if other[:-1] == headings[:-1])
        following = next((text for text in siblings if _IMPLEMENTATION.search(text)), None)
        if following is not None:
            found[headings[-1].number] = plain(following)
    return found


def _section(box: _Box, before: Mapping[int, str]) -> str:
    below_title = [head for head in box.headings if head.level > 1]
    section = " / ".join(plain(head.text) for head in below_title)
    if box.note:
        section += f": {box.note}"
    following = before.get(below_title[-1].number) if below_title else None
    return f"{section}, before {following}" if following else section


def _is_checklist(headings: Sequence[Heading]) -> bool:
    """A phase may be called validation; a checklist or the criteria of a story hold no tasks."""
    return any(
        _CHECKLIST.search(head.text) or (_CHECKS.search(head.text) and not _PHASE.search(head.text))
        for head in headings
        if head.level > 1
    )


def _without_references(boxes: Sequence[_Box], notices: list[Notice]) -> Iterator[_Box]:
    """Leave out what a checklist says about tasks that stand elsewhere ("T001-T010 are complete")."""
    outside = {
        atom for box in boxes if box.named and not _is_checklist(box.headings) for atom in atoms(box.named.id)
    }
    for box in boxes:
        assert box.named
        if _is_checklist(box.headings) and outside.issuperset(atoms(box.named.id)):
            text = f"This box of a checklist speaks of {box.named.id}; it is not read as a task."
            notices.append(Notice(box.line.number, text))
        else:
            yield box


def _top_level(boxes: Sequence[_Box]) -> list[_Box]:
    outside = [box for box in boxes if not _is_checklist(box.headings)]
    least = min((box.indent for box in outside), default=0)
    return [box for box in outside if box.indent == least]


def _task(box: _Box, details: Sequence[str], before: Mapping[int, str]) -> BoxTask:
    id_, labels, title = (
        (box.named.id, box.named.labels, box.named.title) if box.named else ("", (), box.rest)
    )
    status = _STATUS.get(box.mark, TaskStatus.CANCELLED)
    if status is TaskStatus.PENDING and (box.named.struck if box.named else is_struck(box.rest)):
        status = TaskStatus.CANCELLED
    return BoxTask(
        key=id_ or f"box-{fingerprint(box.rest)[:8]}",
        title=plain(title) or next(filter(None, map(plain, details)), "") or id_ or plain(box.rest) or "Task",
        text="\n".join([box.rest, *details]),
        status=status,
        line=box.line.number,
        offset=box.line.offset + len(box.line.text[: box.column].encode()),
        mark=box.mark,
        labels=labels,
        stories=_stories(labels, box),
        phase=_phase(box.headings),
        section=_section(box, before),
    )


def _details(lines: Sequence[Line], box: _Box, starts: set[int]) -> list[str]:
    """The lines below a task that belong to it: what is indented deeper, and its paragraph's next lines."""
    first = last = box.line.number
    for index in range(first, len(lines)):
        line = lines[index]
        if not line.text.strip():
            continue
        inside_own_block = first < line.block < line.number
        lazy = line.number == last + 1 and not line.block and not _MARKUP.match(line.text)
        if line.number in starts or heading(line):
            break
        if not (inside_own_block or line.indent > box.indent or lazy):
            break
        last = line.number
    return [line.text.rstrip() for line in lines[first:last]]


def _stories(labels: Sequence[str], box: _Box) -> tuple[str, ...]:
    """Find stories by label, anywhere on the line; else by the nearest heading that names one."""
    found = [story for label in labels for story in stories_in(label, at_start=True)]
    if not found:
        found = [
            story for label in re.findall(r"\[(US[^\[\]]{1,30})\]", box.rest) for story in stories_in(label)
        ]
    if not found:
        nearest = (stories_in(head.text) for head in reversed(box.headings) if head.level > 1)
        found = list(next(filter(None, nearest), ()))
    return tuple(dict.fromkeys(found))


def _phase(headings: Sequence[Heading]) -> str:
    below_title = [head for head in headings if head.level > 1]
    phases = [head for head in below_title if _PHASE.search(head.text)]
    return plain((phases[-1:] or below_title[:1])[0].text) if below_title else ""


def _numbered(tasks: Sequence[BoxTask], notices: list[Notice]) -> list[BoxTask]:
    """Make ids unique, which they are not in real files: the second T056 becomes `T056#2`."""
    count: Counter[str] = Counter()
    first: dict[str, int] = {}
    result = []
    for task in tasks:
        count[task.key] += 1
        if count[task.key] == 1:
            first[task.key] = task.line
            result.append(task)
            continue
        key = f"{task.key}#{count[task.key]}"
        text = f"{task.key} is here and on line {first[task.key]} too; this one is called {key}."
        notices.append(Notice(task.line, text))
        result.append(replace(task, key=key))
    return result


def _remarks(tasks: Sequence[BoxTask]) -> Iterator[Notice]:
    for task in tasks:
        if task.status is TaskStatus.CANCELLED:
            why = "it is struck through" if task.mark == " " else f"its box contains {task.mark!r}"
            yield Notice(task.line, f"{task.key} is neither pending nor done: {why}.")
        elif task.status is TaskStatus.PENDING and len(atoms(task.id)) > 1:
            yield Notice(task.line, f"{task.key} names several ids; it is carried as one task.")


def _without_id(boxes: Sequence[_Box], tasks: Sequence[BoxTask]) -> Iterator[Notice]:
    inside = {task.line + n for task in tasks for n in range(task.text.count("\n") + 1)}
    stray = [
        box
        for box in boxes
        if box.mark == " "
        and not box.named
        and box.line.number not in inside
        and not _is_checklist(box.headings)
    ]
    if stray:
        rest = "" if len(stray) == 1 else f", nor are {len(stray) - 1} more below"
        text = f"This open box has no id and is not read as a task{rest}."
        yield Notice(stray[0].line.number, text)


def _hiding(lines: Sequence[Line]) -> Iterator[Notice]:
    opened = unclosed(lines)
    boxes = [line for line in lines[opened:] if _BOX.match(line.text)] if opened else []
    if boxes:
        what = "comment" if "<!--" in lines[opened - 1].text else "code block"
        text = f"The {what} opened here is never closed: {len(boxes)} boxes in it are not read as tasks."
        yield Notice(opened, text)
