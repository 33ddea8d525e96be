"""Tasks from a plan file: headings such as `## Task 1`, or else boxes. The file is never written."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.amounts import format_count
from segue.domain.errors import SourceError, UsageError
from segue.domain.run import RunKind
from segue.domain.task import Notice, Task, TaskList, TaskStatus
from segue.ports import Source, SourceFiles, SourceRequest, SourceTraits
from segue.sources.markdown import Heading, Markdown, decode, plain, strip_blank, without_marks
from segue.sources.progress import pair_key
from segue.sources.waits import TaskNames, find_waits, note_waits
from segue.sources.watched import WatchedFile
from segue.system.beneath import UnsafeFile
from segue.system.reading import check_inside, explain_unreadable, work_tree

INVALID = "Invalid or missing plan file."
_CONTEXT_BYTES = 8 * 1024
_KEPT = "Nothing was changed."
_MOST_LISTED = 20
_TASK = re.compile(r"Task\s+([0-9]{1,18}(?:\.[0-9]{1,18})*)(?![-–/.]?\w)[:.)\s—–*_-]*(.*)", re.ASCII)
_ALMOST = re.compile(r"\W*(?:x\]\W*)?task\W*[0-9]", re.IGNORECASE)
_STATUS = {" ": TaskStatus.PENDING, "-": TaskStatus.SKIPPED, "~": TaskStatus.CANCELLED}


class ParsedPlan(Struct, frozen=True):
    """A plan as it was understood."""

    tasks: tuple[Task, ...]
    unread: tuple[Notice, ...] = ()
    """Headings that are nearly tasks, or tasks a second time."""
    preamble: str = ""
    read_as: str = ""


def parse(text: str) -> ParsedPlan:
    """Understand a plan. The first heading `Task N` says which level the tasks have."""
    found = Markdown.read(text)
    tasks = [(head, task) for head in found.headings if (task := _TASK.match(plain_heading(head)))]
    if not tasks:
        return _parse_boxes(found)
    level = tasks[0][0].level
    starts = [(head, _key(task[1]), task[2]) for head, task in tasks if head.level == level]
    ends = [head.line for head, _, _ in starts[1:]] + [len(found.lines)]
    made: dict[str, Task] = {}
    unread = [_say_unread(head) for head in found.headings if head.level == level and _is_almost(head)]
    for (head, key, title), end in zip(starts, ends, strict=True):
        if key in made:
            text = f"Task {key} is here and on line {made[key].line}: give each its own number."
            unread.append(Notice(head.line + 1, text))
            continue
        body = found.lines[head.line + 1 : end]
        above = " / ".join(plain(one.text) for one in found.above(head.line, level) if one.level > 1)
        made[key] = Task(
            key,
            plain(title) or _first_words(body) or f"Task {key}",
            strip_blank(body) or title,
            line=head.line + 1,
            section=above,
        )
    ordered = sorted(made.values(), key=lambda task: [int(part) for part in task.key.split(".")])
    return ParsedPlan(
        _with_waits(ordered),
        tuple(sorted(unread, key=lambda notice: notice.line or 0)),
        strip_blank(found.lines[: starts[0][0].line]),
        f"Read {format_count(len(made), 'task')} from headings `{'#' * level} Task N`.",
    )


def plain_heading(head: Heading) -> str:
    """Return the words of a heading without the marks of bold text."""
    return head.text.replace("**", "").replace("__", "").strip()


def _parse_boxes(found: Markdown) -> ParsedPlan:
    """Read the outermost boxes; what stands below one belongs to it, up to the next box or heading."""
    unread = tuple(_say_unread(head) for head in found.headings if _is_almost(head))
    boxes = list(found.boxes())
    least = min((len(box[1].expandtabs(4)) for _, box in boxes), default=0)
    boxes = [(line, box) for line, box in boxes if len(box[1].expandtabs(4)) == least]
    if not boxes:
        return ParsedPlan((), unread, strip_blank(found.lines))
    stops = sorted([*(line for line, _ in boxes), *(head.line for head in found.headings), len(found.lines)])
    tasks = []
    for place, (line, box) in enumerate(boxes, 1):
        end = next(stop for stop in stops if stop > line)
        text = "\n".join([box[3].rstrip(), strip_blank(found.lines[line + 1 : end])]).rstrip()
        section = " / ".join(plain(one.text) for one in found.above(line) if one.level > 1)
        status = _STATUS.get(box[2], TaskStatus.DONE)
        title = plain(box[3]) or f"Task {place}"
        tasks.append(Task(str(place), title, text, status, line + 1, section=section))
    first = min([boxes[0][0], *(head.line for head in found.headings if head.level > 1)])
    said = f"Read {format_count(len(tasks), 'task')} from boxes `- [ ]`."
    return ParsedPlan(_with_waits(tasks), unread, strip_blank(found.lines[:first]), said)


def _with_waits(tasks: Sequence[Task]) -> tuple[Task, ...]:
    names = TaskNames({task.key: task.key for task in tasks})
    return tuple(
        replace(task, depends_on=find_waits(f"{task.title}\n{task.text}", task.key, names)) for task in tasks
    )


def _key(number: str) -> str:
    return ".".join(part.lstrip("0") or "0" for part in number.split("."))


def _first_words(lines: Sequence[str]) -> str:
    return next(filter(None, (plain(without_marks(line).lstrip("# ")) for line in lines)), "")


def _is_almost(head: Heading) -> bool:
    return _ALMOST.match(head.text) is not None and _TASK.match(plain_heading(head)) is None


def _say_unread(head: Heading) -> Notice:
    shown = f"{'#' * head.level} {plain(head.text)}"
    return Notice(head.line + 1, f"`{shown}` is not read as a task: write `## Task N`, with one number.")


class PlanFile(Source):
    """A plan file that is run in one repository."""

    kind = "planfile"
    in_files = True
    traits = SourceTraits(run_kind=RunKind.PLAN, numbered=True)

    @classmethod
    def matches(cls, request: SourceRequest) -> bool:
        """Return whether anything was named: what no other source recognises is taken for a plan file."""
        return request.named is not None

    @classmethod
    def open(cls, request: SourceRequest) -> Self:
        """Open the file that was named."""
        if request.named is None:
            raise UsageError(
                "No source was named: no plan, no feature, no issues.",
                hint="Name one, such as plan.md or specs/001-login, or set source in segue.toml",
            )
        path = request.here / request.named
        check_inside(path, work_tree(request.repo))
        return cls(path, request.repo)

    def __init__(self, path: Path, repo: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self._named = Path(os.path.abspath(path))  # noqa: PTH100 - a link is part of the contract
        self.key = pair_key("plan", str(self.path), repo)
        self._file = WatchedFile(self.path)
        self._data: bytes | None = None
        self._listing = TaskList(())
        self._preamble = ""

    @property
    def address(self) -> str:
        """The path of the plan."""
        return str(self.path)

    @property
    def title(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def files(self) -> SourceFiles:
        """The plan, as it was named: a link stays where it leads."""
        return SourceFiles(contract=(self._named,))

    def tasks(self) -> TaskList:
        """Return the tasks of the plan; with headings that are nearly tasks it is refused."""
        data = self._read()
        if data is not self._data:
            plan = parse(decode(data, str(self.path), INVALID))
            notices = (*note_waits(plan.tasks), *plan.unread)
            self._listing = TaskList(plan.tasks, notices, plan.read_as, _refusal(self.path, plan))
            self._data, self._preamble = data, plan.preamble
        return self._listing

    def context(self, task: Task) -> str:  # noqa: ARG002 - the preamble is for all tasks
        """Return the text before the first task: whole paragraphs, up to 8 KiB."""
        self.tasks()
        kept: list[str] = []
        room = _CONTEXT_BYTES
        for paragraph in self._preamble.split("\n\n"):
            room -= len(paragraph.encode("utf-8", "surrogatepass")) + 2
            if room < 0:
                break
            kept.append(paragraph)
        return "\n\n".join(kept).strip("\n")

    def _read(self) -> bytes:
        try:
            data = self._file.read()
        except UnsafeFile as error:
            raise SourceError(f"{INVALID} {error.message}", kept=_KEPT, hint=error.hint) from error
        except OSError as error:
            message = f"{INVALID} {explain_unreadable(self.path, error)}"
            raise SourceError(message, kept=_KEPT, hint=_advise(self.path, error)) from error
        if not data.strip():
            message = f"{INVALID} {self.path} is empty."
            raise SourceError(message, kept=_KEPT, hint="Write `## Task 1` and what to do.")
        return data


def _refusal(path: Path, plan: ParsedPlan) -> SourceError | None:
    """Return why a plan cannot be run: it has no tasks, or headings that would be lost in another task."""
    if plan.unread:
        rows = [f"  line {notice.line}: {notice.text}" for notice in plan.unread]
        more = [f"  … and {len(rows) - _MOST_LISTED} more"] if len(rows) > _MOST_LISTED else []
        listed = "\n".join([*rows[:_MOST_LISTED], *more])
        return SourceError(
            f"{INVALID} In {path} these headings cannot be read:\n{listed}",
            kept=_KEPT,
            hint="Fix these headings; `segue task list` shows what is understood.",
        )
    if plan.tasks:
        return None
    message = f"{INVALID} No heading such as `## Task 1` and no `- [ ]` box was found in {path}."
    return SourceError(message, kept=_KEPT, hint="Give each task a heading such as `## Task 1`.")


def _advise(path: Path, error: OSError) -> str:
    """Say what to do about a plan that cannot be read; one word may be meant as a goal."""
    if isinstance(error, FileNotFoundError) and not path.suffix:
        return 'Name a file, or say in several words what to build: segue run "Build a todo app"'
    return "Check the path and who may read it."
