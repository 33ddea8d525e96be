"""Finds the feature to work on, as Spec Kit itself does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from segue.domain.errors import SourceError
from segue.domain.text import suggest
from segue.sources.recognise import TASKS, find_features
from segue.system.reading import read_file, work_tree

_KEPT = "Nothing was changed."
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
