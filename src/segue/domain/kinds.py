"""Reads from the words of a task what kind it is, `build` when in doubt, and which commands it names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from msgspec.structs import replace

from segue.domain.task import Notice, Task, TaskKind, TaskList

_LONGEST_TEXT, _MOST_COMMANDS = 100_000, 20

_KIND_LINE = re.compile(r"^[\s>*_+`-]*kind[\s*_`]*[:=][\s*_`]*([\w -]{1,40}?)[\s*_`.]*$", re.I | re.M)
_KIND_LABEL = re.compile(r"[(\[]\s*kind\s*[:=]\s*([\w -]{1,40}?)\s*[)\]]", re.IGNORECASE)
_BLOCK = re.compile(r"^[ \t>]*(`{3,}|~{3,})[ \t]*([\w-]*)[^\n]*\n(.*?)(?:^[ \t>]*\1|\Z)", re.DOTALL | re.M)

_HUMAN = re.compile(r"\[(?:human|manual)\]", re.IGNORECASE)
_FAILING_TEST = re.compile(r"\bfailing\b.*\btests?\b|\btests?\b.*\bfail(?:s|ing)?\b|\[(?:red|tdd)\]", re.I)
_TEST = re.compile(r"^(?!run|verify|validate|.*fixtures?\b).*\btests?\b", re.IGNORECASE)
_FIRST = re.compile(r"\btests?\b.*\b(?:first|fail\w*|before)\b", re.IGNORECASE | re.DOTALL)
_VERIFY = re.compile(r"(?:final(?:ly)?[:,]? )?(?:re-?)?(?:run|verify|validate)\b(?! length)", re.IGNORECASE)
_SOURCE_FILE = re.compile(
    r"\b(?:src|lib|app)/|[\w/-]\.(?:py|[cm]?[jt]sx?|go|rs|java|kt|swift|cs|c|cpp|rb|php|vue)\b"
)
TEST_FILE = re.compile(r"[\w./-]*(?:\btests?/|\btest_|_test\.|\.(?:test|spec)\.)[\w./-]*")

_SAME = re.compile(
    r"\b(?:refactor|rename|move|extract|inline|simplify|reorgani[sz]e|deduplicate|optimi[sz]e|speed up)\b"
    r"|\bsame (?:behaviou?r|results?|output)\b|\bwithout changing (?:the )?behaviou?r"
    r"|\bmake\b.*\bfaster\b|\bresults? (?:stay|remain)s? the same\b",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"(?:^|[.!?:;]\s+|\n[\s>*-]*)(?:also )?(?:add|implement|fix|support|create|change)\b", re.I
)


def recognise_kind(title: str, text: str = "", section: str = "") -> TaskKind:
    """Return what the words of a task ask for; `section` are the headings and notes above it."""
    text = text[:_LONGEST_TEXT]
    stated = stated_kind(text) or stated_kind(title)
    if stated is not None:
        return stated
    words = f"{title}\n{text}"
    if _HUMAN.search(words):
        return TaskKind.HUMAN
    if not _VERIFY.match(title) and (
        _FAILING_TEST.search(words) or (_TEST.match(title) and _FIRST.search(section))
    ):
        return TaskKind.TEST_FIRST
    if _VERIFY.match(title) and not _SOURCE_FILE.search(TEST_FILE.sub("", words)):
        return TaskKind.VERIFY_ONLY
    return TaskKind.BUILD


def stated_kind(text: str) -> TaskKind | None:
    """Return the kind that the author names, as in `kind: docs` on a line or `[kind: docs]` anywhere."""
    return next((kind for word in _stated(text) if (kind := read_kind(word)) is not None), None)


def read_kind(word: str) -> TaskKind | None:
    """Return the kind that a word names; None: there is no such kind."""
    name = re.sub(r"[\s_]+", "-", word.strip().lower())
    return TaskKind(name) if name in set(TaskKind) else None


def _stated(text: str) -> Iterator[str]:
    if "kind" in text.lower():
        bare = _BLOCK.sub("\n", text)
        for pattern in (_KIND_LINE, _KIND_LABEL):
            yield from (match[1] for match in pattern.finditer(bare))


def kind_of(task: Task, rules: Mapping[str, TaskKind]) -> TaskKind:
    """Return the kind of a task: by `rules` for keys or patterns such as `T0*`, its source, or its words."""
    ruled = next((kind for pattern, kind in rules.items() if fnmatchcase(task.key, pattern)), None)
    if ruled is not None:
        return ruled
    if task.kind_is_given or task.kind is not TaskKind.BUILD:
        return task.kind
    return recognise_kind(task.title, task.text, task.section)


def with_kind(task: Task, rules: Mapping[str, TaskKind]) -> Task:
    """Return the task with its kind."""
    return replace(task, kind=kind_of(task, rules))


def with_kinds(listing: TaskList, rules: Mapping[str, TaskKind]) -> TaskList:
    """Return the tasks with their kinds, and notices about kinds that do not exist."""
    notices = list(listing.notices)
    for task in listing.tasks:
        labels = _KIND_LABEL.findall(task.text[:_LONGEST_TEXT])
        if labels and not any(map(read_kind, labels)):
            text = f"{labels[0]!r} is no kind of task; there are {', '.join(TaskKind)}."
            notices.append(Notice(task.line or 1, f"{text} The words of {task.key} decide."))
    tasks = tuple(with_kind(task, rules) for task in listing.tasks)
    return replace(listing, tasks=tasks, notices=tuple(notices))


def keeps_behaviour(words: str) -> bool:
    """Return whether a task asks for other code that does the same."""
    return _SAME.search(words) is not None and _MORE.search(words) is None


_SHELLS = {"bash", "sh", "shell", "zsh", "console"}
_INLINE = re.compile(r"\b(?:run|execute|with|via|using|then|and)\W*(?<!`)`([^`\n]{1,1000})`", re.IGNORECASE)
_NEEDS_SHELL = re.compile(r"[|&;<>()*$~…]|\{[^}]*,|^\w+=|^cd ")
_OUTWARD = re.compile(r"[\s:](?:publish|push|deploy|apply|destroy|delete|release)(?=\s|$)")
"""Words of commands that reach beyond the repository: those are for people and agents."""


def commands_in(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the commands in shell blocks, and in backticks after "run", that need no shell."""
    lines = [
        line
        for _, language, body in _BLOCK.findall(text)
        if language.lower() in _SHELLS
        for line in body.replace("\\\n", " ").split("\n")
    ]
    written = [*lines, *_INLINE.findall(_BLOCK.sub("\n", text))]
    commands = (_split(line.strip().removeprefix("> ").removeprefix("$ ")) for line in written)
    return tuple(dict.fromkeys(filter(None, commands)))[:_MOST_COMMANDS]


def _split(command: str) -> tuple[str, ...]:
    """Return the words of a command; nothing if it needs a shell or reaches too far."""
    bare = re.sub(r"'[^']*'", "''", command)
    if _NEEDS_SHELL.search(re.sub(r'"[^"$`]*"', '""', bare)) or _OUTWARD.search(command):
        return ()
    try:
        words = tuple(shlex.split(command, comments=True))
    except ValueError:
        return ()
    return words if words and words[0] else ()
