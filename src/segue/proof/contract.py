"""The contract: what a run set out to do. Agents that change it change nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from segue.domain.proof import Tampering
from segue.domain.task import Task, TaskList, TaskStatus
from segue.proof.settings_guard import settle_file
from segue.system.files import private_folder, signature, write_atomic
from segue.system.reading import UnsafeFile, read_file

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
        self._folder = folder
        self._files = files
        self._look = look
        self._digests: dict[Path, tuple[object, str]] = {}

    def keep(self) -> dict[str, str]:
        """Keep what the files contain now and return a digest of each; empty for one that does not exist."""
        return {str(file.path): self._keep_file(file.path) for file in self._files}

    def restore(self, before: dict[str, str], task: Task | None) -> list[Tampering]:
        """Put back what was changed since, and say what it was."""
        changed = [one for one in self._files if self._keep_file(one.path) != before.get(str(one.path), "")]
        listed = [file for file in changed if file.subject == "tasks"]
        now = self._tasks() if listed else ()
        said = {file: self._restore_file(file, before.get(str(file.path), ""), task) for file in changed}
        found = [
            Tampering(file.subject, text, file.path.name)
            for file, text in said.items()
            if text and file.subject != "tasks"
        ]
        if any(said[file] for file in listed):
            found += _describe(self._tasks(), now, listed[0].path, task)
        return found

    def _tasks(self) -> tuple[Task, ...]:
        """Return the tasks as the source shows them now; none when it cannot be read."""
        try:
            return self._look().tasks
        except Exception:  # an agent may have left anything there
            return ()

    def _keep_file(self, path: Path) -> str:
        """Return a digest of a file and keep its content; one that nobody touched is not read again."""
        now = signature(path)
        known = self._digests.get(path)
        if known is not None and known[0] == now:
            return known[1]
        data = _read(path)
        digest = _digest(data)
        if digest and not (self._folder / digest).exists():
            private_folder(self._folder)
            write_atomic(self._folder / digest, data or b"")
        self._digests[path] = now, digest
        return digest

    def _restore_file(self, file: ContractFile, digest: str, task: Task | None) -> str:
        """Put one file back; returns what to say about it, nothing when the contract is not concerned."""
        name = file.path.name
        old = _read(self._folder / digest) if digest else None
        new = _read(file.path)
        if digest and old is None:  # kept by nobody: an older version of Segue started the launch
            return ""
        if file.subject == "settings":
            return self._settle(file.path, old, new)
        if file.subject == "criteria" and task is not None and name in task.text:
            return f"The agent changed {name}, as the task asks; the run continues with what it said before."
        if old is None:
            file.path.unlink(missing_ok=True)
            return f"The agent created {name}, which would change the run. It was removed."
        file.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file.path, old)
        if new is None:
            return f"The agent removed {name}. It was put back."
        kept = self._folder / _digest(new)
        return f"The agent changed {name}. It was put back; the changed version is kept as {kept}."

    def _settle(self, path: Path, old: bytes | None, new: bytes | None) -> str:
        """Put Segue's settings back, if the agent changed what they say."""
        settled = settle_file(path.name, old, new)
        if settled is None:
            return ""
        if settled.data is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, settled.data)
        kept = f" The changed version is kept as {self._folder / _digest(new)}." if settled.whole else ""
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
        text = f"The agent marked {_list(ticked)} as done in {path.name}. That was taken back."
        found.append(Tampering("ticks", text, path.name))
    if rewritten:
        text = f"The agent rewrote {_list(rewritten)} in {path.name}. That was taken back."
        found.append(Tampering("task text", text, path.name))
    if added:
        text = f"The agent added {_list(added)} to {path.name}. That was taken back."
        found.append(Tampering("task text", text, path.name))
    if gone or not now:
        what = f"removed {_list(gone)} from" if gone else "left no readable task in"
        found.append(Tampering("task text", f"The agent {what} {path.name}. It was put back.", path.name))
    return found


def _list(keys: Sequence[str]) -> str:
    return ", ".join(keys[:10]) + (" …" if len(keys) > 10 else "")


def _read(path: Path) -> bytes | None:
    try:
        return read_file(path, limit=_LARGEST)
    except (OSError, UnsafeFile):
        return None


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()
