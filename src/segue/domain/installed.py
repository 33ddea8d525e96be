"""Finds parts: which are installed, and to which one a command, a table of settings or an event belongs."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from segue.domain.errors import UsageError
from segue.domain.part import Part, PartCommand, PartFiles, PartTable

GROUP = "segue.parts"
"""The group of entry points that parts are registered in."""
_INDEX = Path(__file__).with_name("parts.json")
"""The parts that come with Segue, as they describe themselves: written by `make docs`, quicker to read than
entry points."""
_KINDS = {"commands": PartCommand, "tables": PartTable, "files": PartFiles}
"""The fields of a part that are tables of named tuples."""


def _read_part(values: dict[str, Any]) -> Part:
    for field, kind in _KINDS.items():
        values[field] = {name: kind(**_frozen(one)) for name, one in values.get(field, {}).items()}
    return Part(**_frozen(values))


def _frozen(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


PARTS: tuple[Part, ...] = tuple(map(_read_part, json.loads(_INDEX.read_text("utf-8"))))
BUILT_IN: Mapping[str, Part] = {part.name: part for part in PARTS}
"""The parts that come with Segue, whether or not their folders are still there."""


class OtherPart(NamedTuple):
    """A part of another package, or why it cannot be used."""

    name: str
    package: str
    part: Part | None
    problem: str = ""


def import_name(where: str) -> Any:
    """Import what a text such as `package.module:name` stands for.

    Raises UsageError if it belongs to a part that imports another one, which is not installed.
    """
    module, _, path = where.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        name = (error.name or "").removeprefix("segue.parts.").partition(".")[0]
        if name not in BUILT_IN or is_installed(name):
            raise
        raise _missing(BUILT_IN[name], "This", "needs") from error
    for name in path.split("."):
        found = getattr(found, name)
    return found


@cache
def is_installed(name: str) -> bool:
    """Return whether the folder of a built-in part is there; a folder that only has caches does not count."""
    from importlib.util import find_spec

    spec = find_spec(f"segue.parts.{name}")
    return spec is not None and spec.origin is not None


def built_in_parts() -> Iterator[Part]:
    """Yield the parts that come with Segue and are installed."""
    return (part for part in PARTS if is_installed(part.name))


def installed_parts() -> Iterator[Part]:
    """Yield every part, those of other packages too; slow."""
    yield from built_in_parts()
    yield from (other.part for other in other_parts() if other.part is not None)


@cache
def other_parts() -> tuple[OtherPart, ...]:
    """Return the parts that other packages register; slow, so only asked for names that are not built in."""
    from importlib.metadata import entry_points

    found: dict[str, OtherPart] = {}
    for point in entry_points(group=GROUP):
        if point.name in BUILT_IN:
            continue
        package = point.dist.name if point.dist else "an unknown package"
        part, problem = _load(point)
        if problem:
            problem = f"The part {point.name!r} of {package} cannot be used: {problem}"
        found.setdefault(point.name, OtherPart(point.name, package, part, problem))
    return tuple(found.values())


def _load(point: Any) -> tuple[Part | None, str]:
    try:
        part = point.load()
    except Exception as error:  # another package's code may raise anything
        return None, f"{type(error).__name__}: {error}"
    if not isinstance(part, Part):
        return None, f"{point.value} is not a Part"
    return part, ""


def find_command(name: str) -> PartCommand | None:
    """Return the command of a part; raises UsageError if that part is not installed."""
    part = _find_owner("commands", name, f"`segue {name}`")
    return part.commands[name] if part else None


def find_table(name: str) -> PartTable | None:
    """Return the table of settings of a part; raises UsageError if that part is not installed."""
    part = _find_owner("tables", name, f"[{name}] in the settings")
    return part.tables[name] if part else None


def known_table(name: str) -> PartTable | None:
    """Return the table of settings of a part, installed or not; None if no part has it."""
    parts = [*PARTS, *_others_after("tables", name)]
    return next((part.tables[name] for part in parts if name in part.tables), None)


def find_event(name: str) -> type[Any] | None:
    """Return the class of an event of a part that is installed."""
    for part in (*PARTS, *_others_after("events", name)):
        if name in part.events and (part.name not in BUILT_IN or is_installed(part.name)):
            kind: type[Any] = import_name(part.events[name])
            return kind
    return None


def event_names() -> list[str]:
    """Return the names of the events of the parts that come with Segue."""
    return [name for part in built_in_parts() for name in part.events]


def socket_variants(socket: str) -> dict[str, str]:
    """Return the variants of a socket that installed parts of Segue bring: name → module and class."""
    parts = (part for part in PARTS if socket in part.sockets and is_installed(part.name))
    return {name: where for part in parts for name, where in part.sockets[socket].items()}


def source_of(named: str) -> str | None:
    """Return the source, of an installed part or not, that a path certainly means."""
    path = f"/{PurePath(named).as_posix()}"
    for part in PARTS:
        for source, files in part.files.items():
            if any(fnmatchcase(path, f"*/{pattern}") for pattern in files.named):
                return source
    return None


@cache
def other_variants(socket: str) -> dict[str, str]:
    """Return the variants that parts of other packages bring; slow."""
    parts = [other.part for other in other_parts() if other.part is not None]
    return {name: where for part in parts for name, where in part.sockets.get(socket, {}).items()}


def known_variants(socket: str) -> list[str]:
    """Return the names of the variants that parts of Segue bring, installed or not."""
    return [name for part in PARTS for name in part.sockets.get(socket, {})]


def find_variant(socket: str, name: str, what: str) -> Any:
    """Import a variant of one of Segue's parts; raises UsageError, about `what`, if it is not installed."""
    refuse_missing(socket, name, what)
    return import_name(socket_variants(socket)[name])


def refuse_missing(socket: str, name: str, what: str) -> None:
    """Raise UsageError for a variant of a built-in part that is not installed."""
    for part in PARTS:
        if name in part.sockets.get(socket, {}) and not is_installed(part.name):
            raise _missing(part, what)


def require_part(name: str, what: str) -> None:
    """Raise UsageError, about `what`, if a part that comes with Segue is not installed."""
    if not is_installed(name):
        raise _missing(BUILT_IN[name], what)


def _find_owner(kind: str, name: str, what: str) -> Part | None:
    for part in PARTS:
        if name in getattr(part, kind):
            if is_installed(part.name):
                return part
            raise _missing(part, what)
    return next((part for part in _others_after(kind, name) if name in getattr(part, kind)), None)


def _others_after(kind: str, name: str) -> Iterable[Part]:
    """Return the parts of other packages, unless a built-in one has the name already."""
    if any(name in getattr(part, kind) for part in PARTS):
        return ()
    return [other.part for other in other_parts() if other.part is not None]


def _missing(part: Part, what: str, how: str = "belongs to") -> UsageError:
    return UsageError(
        f"{what} {how} the part {part.name}, which is not installed.",
        hint="`segue parts` lists the parts; installing Segue again brings all of its own",
    )
