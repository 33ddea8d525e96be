"""Finds the Spec Kit feature that is meant, and what the project around it says."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from segue.domain.errors import SourceError
from segue.domain.text import suggest
from segue.sources.recognise import TASKS, find_features
from segue.system.reading import UnsafeFile, read_file, work_tree

_KEPT = "Nothing was changed."
_MAKE_TASKS = "Make it with /speckit.tasks, or name another folder."
_ITEM = re.compile(r"\s*[-*+] \[([ xX])\]\s*(.*)")
_MOST_ITEMS, _LONGEST_ITEM, _MOST_LISTED = 3, 80, 20


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
        if not noted.resolve().is_relative_to(work_tree(root).resolve()):
            raise SourceError(
                f"{note} names {noted}, which is outside of the repository.",
                kept=_KEPT,
                hint="Name the folder yourself if you mean it.",
            )
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


def describe_next_step(root: Path) -> str:
    """Return what to do when all tasks are done; nothing where Spec Kit is not set up."""
    if not (root / ".specify").is_dir():
        return ""
    separator = "."
    try:
        found: Any = msgspec.json.decode(read_file(root / ".specify" / "integration.json", root))
        separator = str(found["integration_settings"][found["default_integration"]]["invoke_separator"])
    except (OSError, UnsafeFile, msgspec.DecodeError, KeyError, TypeError):
        pass
    lacking = "appends to tasks.md what the spec asks for and the code lacks"
    return f"All tasks are done. In your agent, /speckit{separator}converge {lacking}; then run segue again."


def find_unchecked(folder: Path, inside: Path) -> Iterator[str]:
    """Yield a line for each checklist of a feature that has unchecked items."""
    for path in sorted((folder / "checklists").glob("*.md")):
        text = read_file(path, inside).decode("utf-8", "replace")
        items = [found for line in text.splitlines() if (found := _ITEM.match(line))]
        unchecked = [found[2].strip()[:_LONGEST_ITEM] for found in items if found[1] == " "]
        if unchecked:
            named = "; ".join(unchecked[:_MOST_ITEMS]) + ("; …" if len(unchecked) > _MOST_ITEMS else "")
            yield f"{path.name} has {len(unchecked)} unchecked of {len(items)} items ({named})"


def name_in(repo: Path, path: Path) -> str:
    """Return a path as an agent in the repository names it."""
    return path.relative_to(repo).as_posix() if path.is_relative_to(repo) else str(path)


def _named(argument: str, start: Path, root: Path) -> Path:
    path = start / argument
    if path.is_file():
        path = path.parent
    if (path / TASKS).is_file():
        return path
    if path.is_dir():
        return _only(path)  # a project was named: the only feature in it is meant
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
        chosen = json.loads(read_file(note, note.parents[1]).decode("utf-8-sig"))["feature_directory"]
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
    rows = [f"\n  {os.path.relpath(folder, root)}" for folder in folders[:_MOST_LISTED]]
    more = f"\n  … and {len(folders) - _MOST_LISTED} more" if len(folders) > _MOST_LISTED else ""
    return "".join(rows) + more
