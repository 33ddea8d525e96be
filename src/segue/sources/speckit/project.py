"""The Spec Kit project around a feature: which one is meant, its files, hooks, checklists, next command."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from segue.domain.errors import SourceError
from segue.domain.task import Notice
from segue.domain.text import suggest
from segue.sources.plan.state import pair_key
from segue.sources.recognise import TASKS, find_features
from segue.sources.speckit.spec import parse_constitution
from segue.system.reading import UnsafeFile, read_file, work_tree

_LONGEST_LINK = 64 * 1024
_KEPT = "Nothing was changed."
_T = TypeVar("_T")


def read_parsed(path: Path, inside: Path, read: Callable[[bytes, str], _T], missing: _T) -> _T:
    """Return what is understood of a file, or something else if it is missing."""
    data = _read(path, inside)
    return missing if data is None else read(data, str(path))


def read_tasks(path: Path, inside: Path) -> bytes:
    """Return the contents of tasks.md; raises SourceError if there is none."""
    data = _read(path, inside) if path.is_file() else None
    if data is None:
        raise SourceError(
            f"There is no {TASKS} in {path.parent}.", kept=_KEPT, hint="Make it with /speckit.tasks."
        )
    return data


def _read(path: Path, inside: Path) -> bytes | None:
    try:
        return read_file(path, inside)
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"Cannot read {path}: {error.strerror or error}."
        raise SourceError(message, kept=_KEPT, hint="Check who may read it.") from error


def lock_path(folder: Path) -> Path:
    """Return a lock file where git does not see it: users' folders stay clean, and it is never committed."""
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        if git.is_file():
            named = os.fsdecode(read_file(git, limit=_LONGEST_LINK))
            git = parent / named.removeprefix("gitdir:").strip()
        if git.is_dir():
            return git / f"segue-{pair_key(folder, folder)}.lock"
    return folder / ".state.json.lock"


_ITEM = re.compile(r"\s*[-*+] \[([ xX])\]\s*(.*)")
_MOST_ITEMS = 3
_LONGEST_ITEM = 80


class _Entry(msgspec.Struct):
    """A hook in extensions.yml; what is not named has Spec Kit's default."""

    command: str
    optional: bool = True
    enabled: bool = True


class _Hooks(msgspec.Struct):
    before_implement: list[_Entry] | None = None
    after_implement: list[_Entry] | None = None


class _Extensions(msgspec.Struct):
    hooks: _Hooks | None = None


class SpecKitProject(msgspec.Struct, frozen=True):
    """The project that a feature belongs to: the folder with `.specify` in it."""

    root: Path

    @property
    def law(self) -> Path:
        """The constitution."""
        return self.root / ".specify" / "memory" / "constitution.md"

    def constitution(self) -> str:
        """Return what the constitution says; nothing if there is none."""
        return read_parsed(self.law, self.root, parse_constitution, "")

    @property
    def journal(self) -> Path:
        """The folder in which Spec Kit's workflow engine keeps its runs."""
        return self.root / ".specify" / "workflows" / "runs"

    def note_hooks(self) -> Iterator[Notice]:
        """Yield a notice that names the hooks of `/implement`, which are commands for its agent."""
        path = self.root / ".specify" / "extensions.yml"
        try:
            found = msgspec.yaml.decode(read_file(path, self.root), type=_Extensions | None, strict=False)
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
            yield Notice(None, f"{path} cannot be read, so nobody knows which hooks it names: {error}.")
            return
        hooks = (found.hooks if found else None) or _Hooks()
        named = [
            f"{entry.command} ({when}{'' if entry.optional else ', mandatory'})"
            for when, entries in (("before", hooks.before_implement), ("after", hooks.after_implement))
            for entry in entries or ()
            if entry.enabled
        ]
        if named:
            yield Notice(None, f"Spec Kit's hooks of /implement are left to you: {', '.join(named)}.")

    def next_step(self) -> str:
        """Return what to do when all tasks are done; nothing where Spec Kit is not set up."""
        if not (self.root / ".specify").is_dir():
            return ""
        converge = f"/speckit{self._separator()}converge"
        lacking = "appends to tasks.md what the spec asks for and the code lacks"
        return f"All tasks are done. In your agent, {converge} {lacking}; then run segue again."

    def _separator(self) -> str:
        """Return what is between `speckit` and the name of a command in the agent of this project."""
        path = self.root / ".specify" / "integration.json"
        try:
            found: Any = msgspec.json.decode(read_file(path, self.root))
            settings = found["integration_settings"][found["default_integration"]]
            return str(settings["invoke_separator"])
        except (OSError, UnsafeFile, msgspec.DecodeError, KeyError, TypeError):
            return "."


def open_checklists(folder: Path, inside: Path) -> Iterator[str]:
    """Yield a line for each checklist of a feature that has unchecked items."""
    for path in sorted((folder / "checklists").glob("*.md")):
        text = read_file(path, inside).decode("utf-8", "replace")
        items = [found for line in text.splitlines() if (found := _ITEM.match(line))]
        unchecked = [found[2].strip()[:_LONGEST_ITEM] for found in items if found[1] == " "]
        if unchecked:
            more = "; …" if len(unchecked) > _MOST_ITEMS else ""
            named = "; ".join(unchecked[:_MOST_ITEMS]) + more
            yield f"{path.name} has {len(unchecked)} unchecked of {len(items)} items ({named})"


def name_in(repo: Path, path: Path) -> str:
    """Return a path as an agent in the repository names it."""
    return path.relative_to(repo).as_posix() if path.is_relative_to(repo) else str(path)


_MAKE_TASKS = "Make it with /speckit.tasks, or name another folder."


def find_feature(
    argument: str | None, start: Path, environ: Mapping[str, str], here: Path | None = None
) -> Path:
    """Return the feature's folder: as named, else by SPECIFY_FEATURE_DIRECTORY, feature.json, where the user
    is, or the only one.
    """
    root = project_root(start, environ)
    if argument:
        return _named(argument, start, root)
    if chosen := environ.get("SPECIFY_FEATURE_DIRECTORY"):
        return _with_tasks(root / chosen, "SPECIFY_FEATURE_DIRECTORY")
    note = root / ".specify" / "feature.json"
    if note.is_file():
        noted = root / _noted(note)
        _check_noted(noted, note, root)
        return _with_tasks(noted, str(note))
    if here is not None and (here / TASKS).is_file():
        return here
    return _only(root)


def project_root(start: Path, environ: Mapping[str, str]) -> Path:
    """SPECIFY_INIT_DIR, else the nearest folder upwards that has `.specify`, else the start itself."""
    if chosen := environ.get("SPECIFY_INIT_DIR"):
        return start / chosen
    here = start.absolute()
    return next((folder for folder in (here, *here.parents) if (folder / ".specify").is_dir()), here)


def _named(argument: str, start: Path, root: Path) -> Path:
    path = start / argument
    if path.is_file():
        path = path.parent
    if (path / TASKS).is_file():
        return path
    if path.is_dir():
        # A project is meant as well as a feature: then the only feature in it.
        return _only(path)
    known = list(find_features(root))
    found = [folder for folder in known if folder.name == argument] or [
        folder for folder in known if folder.name.startswith(argument)
    ]
    if len(found) == 1:
        return found[0]
    message = f"There is no Spec Kit folder {argument}." if not found else f"{argument} is not unique."
    if not found:
        message += suggest(argument, [str(folder.relative_to(root)) for folder in known], "{}")
    raise SourceError(
        f"{message}{_listed(found or known, root)}", kept=_KEPT, hint="Name the folder by its path."
    )


def _with_tasks(folder: Path, by: str) -> Path:
    if (folder / TASKS).is_file():
        return folder
    what = f"no {TASKS} in it" if folder.is_dir() else "no such folder"
    raise SourceError(f"{by} names {folder}, but there is {what}.", kept=_KEPT, hint=_MAKE_TASKS)


def _noted(note: Path) -> str:
    try:
        document = json.loads(read_file(note, note.parents[1]).decode("utf-8-sig"))
        chosen = document["feature_directory"]
        if isinstance(chosen, str) and chosen:
            return chosen
        reason = "`feature_directory` is not a path"
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error)
    raise SourceError(
        f"{note} does not say which feature is meant ({reason}).",
        kept=_KEPT,
        hint='It should be {"feature_directory": "specs/001-name"}; or name the folder.',
    )


def _check_noted(chosen: Path, note: Path, root: Path) -> None:
    """Refuse a feature elsewhere: the file came with the project, and the user did not name that place."""
    if not chosen.resolve().is_relative_to(work_tree(root).resolve()):
        raise SourceError(
            f"{note} names {chosen}, which is outside of the repository.",
            kept=_KEPT,
            hint="Name the folder yourself if you mean it.",
        )


def _only(root: Path) -> Path:
    found = list(find_features(root))
    if len(found) == 1:
        return found[0]
    if found:
        raise SourceError(
            f"There are {len(found)} features under {root}; which one is meant?{_listed(found, root)}",
            kept=_KEPT,
            hint="Name its folder, or set SPECIFY_FEATURE_DIRECTORY.",
        )
    raise SourceError(f"There is no {TASKS} under {root}.", kept=_KEPT, hint=_MAKE_TASKS)


def _listed(folders: list[Path], root: Path) -> str:
    rows = [f"\n  {folder.relative_to(root)}" for folder in folders[:20]]
    more = f"\n  … and {len(folders) - 20} more" if len(folders) > 20 else ""
    return "".join(rows) + more
