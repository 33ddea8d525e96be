"""The contract: what a run set out to do. Agents that change it change nothing.

Of Segue's settings only what the loader would read counts, whatever the spelling. The rest of a shared file
belongs to the product: it stays as the agent left it, byte for byte, wherever the settings can be exchanged
by themselves.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.domain.amounts import list_some
from segue.domain.options import SHARED_FILE, has_settings, parse_settings
from segue.domain.proof import Tampering
from segue.domain.task import Task, TaskList, TaskStatus
from segue.system.originals import FOLDER, Original, Originals, find_replaced, find_unreadable

_OWN = ("tool", "segue")
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|.",
    re.S,
)


class Settled(Struct, frozen=True):
    """What a file must contain again."""

    data: bytes | None
    """None: there must be no such file."""
    said: str
    whole: bool = False
    """Whether the agent's version of the rest is lost with it, so that it should be kept elsewhere."""


def settle_file(name: str, old: bytes | None, new: bytes | None) -> Settled | None:
    """Return what to put back after a launch; None if Segue's settings are what they were."""
    before, _ = _parse(name, old)
    after, is_readable = _parse(name, new)
    # Of what cannot be read, the loader asks whether it may be settings: then no command would start.
    if before == after and (is_readable or (before is None and not has_settings(new or b""))):
        return None
    if old is None and name != SHARED_FILE:
        return Settled(None, f"The agent created {name}, which would change the run. It was removed.", True)
    if name == SHARED_FILE and is_readable:
        merged = _exchange(_text(old), _text(new))
        if merged is not None:
            data = merged.encode() if merged.strip() or old is not None else None
            return Settled(data, f"The agent changed [tool.segue] in {name}. It was put back.")
    if new is None:
        return Settled(old, f"The agent removed {name}. It was put back.")
    why = "changed Segue's settings in" if is_readable else "left no readable TOML in"
    return Settled(old, f"The agent {why} {name}. It was put back as a whole.", True)


def _parse(name: str, data: bytes | None) -> tuple[dict[str, Any] | None, bool]:
    """Return the settings, and whether the file can be read; one that does not exist has none."""
    if data is None:
        return None, True
    try:
        return parse_settings(name, data), True
    except ValueError:
        return None, False


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


class _Statement(Struct, frozen=True):
    """A header, or a key with its value: whole lines of a TOML file."""

    start: int
    end: int
    table: tuple[str, ...]
    """The table that the header before it opens."""
    path: tuple[str, ...]
    is_header: bool = False

    @property
    def is_own(self) -> bool:
        """Whether it is about Segue's settings."""
        return self.path[:2] == _OWN

    @property
    def is_inside(self) -> bool:
        """Whether it is in a table of Segue's own, or opens one."""
        return self.is_own and (self.is_header or self.table[:2] == _OWN)


def _exchange(old: str, new: str) -> str | None:
    """Return the new text with the settings of the old one; None if that cannot be done by moving lines."""
    text = new if not new or new.endswith("\n") else f"{new}\n"
    try:
        known = list(_statements(text))
        edits = [(start, end, "") for start, end in _blocks(known)]
        edits += [(one.start, one.end, "") for one in known if one.is_own and not one.is_inside]
        edits += _additions(old, known, text)
        for start, end, words in sorted(edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
            text = text[:start] + words + text[end:]
        return text if _split(text) == (_split(old)[0], _split(new)[1]) else None
    except (ValueError, RecursionError):
        return None


def _additions(old: str, known: list[_Statement], text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where the old settings are inserted: in the place of the new ones, if there are any."""
    statements = list(_statements(old))
    tables = "\n".join(_lines(old, start, end) for start, end in _blocks(statements))
    if tables:
        places = [start for start, _ in _blocks(known)]
        at = places[0] if places else len(text)
        yield at, at, tables if places or not text.strip() else f"\n{tables}"
    for table in ((), _OWN[:1]):
        keys = [one for one in statements if one.is_own and not one.is_inside and one.table == table]
        if keys:
            words = "".join(_lines(old, one.start, one.end) for one in keys)
            heads = [one.end for one in known if one.is_header and one.path == table]
            if not table or heads:
                at = heads[0] if table else 0
                yield at, at, words
            else:
                yield len(text), len(text), f"\n[tool]\n{words}"


def _lines(text: str, start: int, end: int) -> str:
    found = text[start:end]
    return found if found.endswith("\n") else f"{found}\n"


def _blocks(statements: list[_Statement]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text that consist of Segue's own tables; comments before and after are not."""
    start = end = -1
    for one in statements:
        if one.is_inside:
            start, end = (one.start if start < 0 else start), one.end
        elif start >= 0:
            yield start, end
            start = -1
    if start >= 0:
        yield start, end


def _statements(text: str) -> Iterator[_Statement]:
    """Yield the statements of a valid TOML file."""
    table: tuple[str, ...] = ()
    at = 0
    while at < len(text):
        end = _end_of(text, at)
        words = text[at:end].strip()
        if words.startswith("["):
            table = _path(words)
            yield _Statement(at, end, table, table, is_header=True)
        elif words and not words.startswith("#"):
            yield _Statement(at, end, table, (*table, *_path(f"{_key(words)} = 0")))
        at = end


def _end_of(text: str, start: int) -> int:
    """Return where the statement ends that starts here: with a line, but not inside of a value."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        word = token[0]
        depth += (word in ("[", "{")) - (word in ("]", "}"))
        if word == "\n" and depth <= 0:
            return token.end()
    return len(text)


def _key(statement: str) -> str:
    for token in _TOKEN.finditer(statement):
        if token[0] == "=":
            return statement[: token.start()]
    raise ValueError(statement)


def _path(words: str) -> tuple[str, ...]:
    """Return the names that a header, or a key with a plain value, consists of."""
    found: Any = tomllib.loads(words)
    path = []
    while isinstance(found, dict) and found:
        ((name, found),) = found.items()
        path.append(name)
    return tuple(path)


def _split(text: str) -> tuple[Any, Any]:
    """Return Segue's settings, and everything else that the file says."""
    found = tomllib.loads(text)
    tool = found.get("tool")
    own = tool.pop("segue", None) if isinstance(tool, dict) else None
    if tool == {}:
        del found["tool"]
    return own, found


_LARGEST = 64 * 1024**2


class ContractFile(Struct, frozen=True):
    """A file that says what is to be done, or what counts as done."""

    path: Path
    subject: str
    """`tasks`, `copy` (of the tasks), `state`, `criteria` or `settings`."""


class Contract:
    """Keeps the contract's files while an agent works."""

    def __init__(self, folder: Path, files: Sequence[ContractFile], look: Callable[[], TaskList]) -> None:
        """`folder` keeps their content, out of the agent's way; `look` reads the tasks as they are now."""
        self._files = files
        self._look = look
        self._originals = Originals(folder, _LARGEST)

    def keep(self) -> dict[str, Original]:
        """Keep what the files contain now, and return what each of them is."""
        return {str(file.path): self._originals.look(str(file.path)) for file in self._files}

    def restore(self, before: Mapping[str, Original], task: Task | None) -> list[Tampering]:
        """Put back what was changed since, and say what it was."""
        replaced = self.restore_places(before)
        changed = [(file, old, new) for file, old, new in self._look_again(before) if not new.is_like(old)]
        listed = [file for file, _, _ in changed if file.subject == "tasks"]
        now = self._tasks() if listed else ()
        said = {file: self._restore_file(file, old, new, task) for file, old, new in changed}
        found = [
            Tampering(file.subject, text, file.path.name)
            for file, text in said.items()
            if text and file.subject != "tasks"
        ]
        if any(said[file] for file in listed):
            found += _describe(self._tasks(), now, listed[0].path, task)
        return [*replaced, *found]

    def restore_places(self, before: Mapping[str, Original]) -> list[Tampering]:
        """Put back files that something else took the place of, such as links; nothing is followed."""
        found = []
        for file, old, new in self._look_again(before):
            place = find_replaced(old, new) or find_unreadable(old, new)
            if place is None and not (new.kind == FOLDER and not old.kind):
                continue
            where, what = place or (new.real, FOLDER)
            kept = self._originals.put_back(old)
            shown = file.path.name if where in (str(file.path), old.real) else where
            text = f"The agent put {what} in place of {shown}. "
            text += "What was there was put back" if old.kind else "It was removed"
            text += f"; what the agent made is now called {kept}." if kept else "."
            found.append(Tampering(file.subject, text, file.path.name))
        return found

    def _look_again(
        self, before: Mapping[str, Original]
    ) -> Iterator[tuple[ContractFile, Original, Original]]:
        """Yield each file as it was and as it is."""
        for file in self._files:
            old = before.get(str(file.path))
            if old is not None:
                yield file, old, self._originals.look(str(file.path), old)

    def _tasks(self) -> tuple[Task, ...]:
        """Return the tasks as the source shows them now; none when it cannot be read."""
        try:
            return self._look().tasks
        except Exception:  # an agent may have left anything there
            return ()

    def _restore_file(self, file: ContractFile, before: Original, now: Original, task: Task | None) -> str:
        """Put one file back; returns what to say about it, nothing when the contract is not concerned."""
        name = file.path.name
        old = self._originals.content(before.digest)
        if before.kind and old is None:  # too large to be kept
            return ""
        if file.subject == "settings":
            return self._settle(before, now, name)
        if file.subject == "criteria" and task is not None and name in task.text:
            return f"The agent changed {name}, as the task asks; the run continues with what it said before."
        self._originals.put_back(before)
        if old is None:
            return f"The agent created {name}, which would change the run. It was removed."
        if not now.kind:
            return f"The agent removed {name}. It was put back."
        kept = f"; the changed version is kept as {self._originals.place(now.digest)}" if now.digest else ""
        return f"The agent changed {name}. It was put back{kept}."

    def _settle(self, before: Original, now: Original, name: str) -> str:
        """Put Segue's settings back, if the agent changed what they say."""
        old, new = self._originals.content(before.digest), self._originals.content(now.digest)
        settled = settle_file(name, old, new)
        if settled is None:
            return ""
        self._originals.put_back(before, settled.data)
        place = self._originals.place(now.digest) if settled.whole and now.digest else None
        kept = f" The changed version is kept as {place}." if place else ""
        return f"{settled.said}{kept}"


def _describe(known: Sequence[Task], now: Sequence[Task], path: Path, own: Task | None) -> list[Tampering]:
    """Say which tasks were ticked or rewritten; ticking the own task is a habit that means no harm."""
    before = {task.key: task for task in known}
    after = {task.key: task for task in now}
    mine = own.key if own is not None else ""
    ticked = [
        key
        for key, task in after.items()
        if key in before and key != mine and before[key].status is TaskStatus.PENDING != task.status
    ]
    rewritten = [
        key for key, task in after.items() if key in before and before[key].text.strip() != task.text.strip()
    ]
    gone = [key for key in before if key not in after] if now else []
    added = [key for key in after if key not in before]
    found = []
    if ticked:
        text = f"The agent marked {list_some(ticked, 10)} as done in {path.name}. That was taken back."
        found.append(Tampering("ticks", text, path.name))
    if rewritten:
        text = f"The agent rewrote {list_some(rewritten, 10)} in {path.name}. That was taken back."
        found.append(Tampering("task text", text, path.name))
    if added:
        text = f"The agent added {list_some(added, 10)} to {path.name}. That was taken back."
        found.append(Tampering("task text", text, path.name))
    if gone or not now:
        what = f"removed {list_some(gone, 10)} from" if gone else "left no readable task in"
        found.append(Tampering("task text", f"The agent {what} {path.name}. It was put back.", path.name))
    return found
