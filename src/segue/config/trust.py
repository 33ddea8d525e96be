"""Trust: a project's settings count only after a person has seen and allowed them as they are.

A few harmless settings need no trust. What was allowed is remembered outside of the project, by the path of
the file and a digest of its other settings.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.config.files import is_foreign
from segue.domain.amounts import list_some
from segue.domain.errors import UsageError
from segue.domain.options import PROJECT_FILES
from segue.system.reading import UnsafeFile, read_file, work_tree

VARIABLE = "SEGUE_TRUST"
"""Set to 1, it allows what the project's file says, in this process and those that it starts."""

HARMLESS = frozenset(("agent", "model", "source", "commit", "jobs"))
"""Settings that take effect without trust: none makes weak work look better, or lets agents do more."""

_MOST_REMEMBERED = 20
"""Versions of a file's settings that stay trusted: those of its branches, as a rule."""
_MOST_NAMED = 6


class ProjectFile(Struct, frozen=True):
    """The settings of a project's file that need trust, and whether they have it."""

    path: Path
    powerful: Mapping[str, Any]
    """By dotted name."""
    is_trusted: bool = True
    """Whether a person has allowed exactly these settings, or there are none."""
    known: bool = False
    """Whether an earlier version of the file was trusted."""

    @property
    def held(self) -> tuple[str, ...]:
        """The settings that are not in force."""
        return () if self.is_trusted else tuple(self.powerful)

    def describe_briefly(self) -> str:
        """Say what is not in force, where nothing is refused for it."""
        return f"Not in force before you trust {self.path}: {self._names}."

    def describe(self) -> str:
        """Say what is not in force, and why."""
        if self.known:
            return f"{self.path} was changed since you trusted it: {self._names}."
        what = "start programs, open connections, or decide where things are kept and what counts as done"
        return f"{self.path} needs your trust before its settings may {what}: {self._names}."

    @property
    def _names(self) -> str:
        return list_some([*self.powerful], _MOST_NAMED) if self.powerful else "its settings were removed"


class Untrusted(UsageError):
    """The project's file asks for what a person has not allowed."""

    def __init__(self, project: ProjectFile) -> None:
        super().__init__(
            project.describe(),
            kept="Nothing was started.",
            hint=f"{trust_command(project.path)}   (shows them and asks; in CI: {VARIABLE}=1)",
        )
        self.project = project


def trust_command(file: Path) -> str:
    """Return the command that allows the settings of a file, to be typed anywhere."""
    from shlex import quote

    if file.name in PROJECT_FILES:
        return f"segue trust --repo {quote(str(file.parent))}"
    return f"segue trust --config {quote(str(file))}"


def is_harmless(name: str, value: Any) -> bool:
    """Return whether a setting takes effect without trust; a source must be in the project."""
    if name != "source":
        return name in HARMLESS
    text = value if isinstance(value, str) else "/"
    return not text.startswith(("/", "~", "\\")) and ".." not in Path(text).parts and ":" not in text


def examine(file: Path, values: Iterable[tuple[str, Any]]) -> ProjectFile:
    """Compare the settings of a project's file with what was allowed."""
    powerful = {name: value for name, value in values if not is_harmless(name, value)}
    allowed = TrustedFiles().read(file)
    is_trusted = _digest(powerful) in allowed or not (allowed or powerful)
    return ProjectFile(file, powerful, is_trusted, known=bool(allowed))


def find_lost(start: Path) -> ProjectFile | None:
    """Return a trusted file, at `start` or above in its work tree, that is gone with all its settings."""
    top, notes = work_tree(start), TrustedFiles()
    if not notes.path.exists():
        return None
    folders = [folder for folder in (start, *start.parents) if folder.is_relative_to(top)]
    files = [examine(folder / name, ()) for folder in folders for name in PROJECT_FILES]
    return next((file for file in files if file.known), None)


def _digest(powerful: Mapping[str, Any]) -> str:
    text = json.dumps(powerful, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class TrustedFiles:
    """The user's note of what was allowed, in their state folder: no setting moves it."""

    def __init__(self) -> None:
        import platformdirs

        try:
            self.path = platformdirs.user_state_path("segue") / "trusted.json"
        except RuntimeError as error:
            raise UsageError(
                f"There is no home folder: {error}.", hint="Set HOME to one of your folders."
            ) from None

    def read(self, file: Path) -> list[str]:
        """Return digests of the versions of a file's settings that were allowed, the latest last."""
        return self._load().get(os.path.realpath(file), [])

    def allow(self, project: ProjectFile) -> None:
        """Remember that a person allowed these settings."""
        digest, key = _digest(project.powerful), os.path.realpath(project.path)
        with self._changing() as files:
            kept = [other for other in files.get(key, ()) if other != digest]
            files[key] = [*kept, digest][-_MOST_REMEMBERED:]

    def forget(self, file: Path) -> None:
        """Forget all that was allowed for a file."""
        with self._changing() as files:
            files.pop(os.path.realpath(file), None)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, list[str]]]:
        from segue.system.files import exclusive, private_folder, write_atomic

        private_folder(self.path.parent)
        with exclusive(self.path.with_suffix(".lock")):
            files = self._load()
            yield files
            write_atomic(self.path, json.dumps({"schema": 2, "files": files}, indent=1).encode())

    def _load(self) -> dict[str, list[str]]:
        """Read the note; one that is damaged or that somebody else owns allows nothing."""
        try:
            if is_foreign(self.path):
                return {}
            files = json.loads(read_file(self.path))["files"]
            return {
                file: [digest for digest in digests if isinstance(digest, str)]
                for file, digests in files.items()
            }
        except (OSError, UnsafeFile, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}
