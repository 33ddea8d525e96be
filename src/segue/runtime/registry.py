"""Loads variants by name: those that come with Segue, and those that other packages register."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from segue.domain.errors import ToolMissing, UsageError
from segue.domain.text import suggest
from segue.plugins import VARIANTS, import_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


@cache
def _registered(kind: str) -> Sequence[EntryPoint]:
    from importlib.metadata import entry_points  # slow: only when somebody asks for what is not built in

    return tuple(entry_points(group=f"segue.{kind}"))


@cache
def _entry_points(kind: str) -> Mapping[str, EntryPoint]:
    """Return the plug-ins by name; of two packages that register the same name, the first one counts."""
    found = {point.name: point for point in reversed(_registered(kind))}
    return {name: point for name, point in found.items() if name not in VARIANTS[kind]}


def names(kind: str) -> list[str]:
    """Return every name that is registered for a kind of variants."""
    return sorted({*VARIANTS[kind], *plugin_names(kind)})


def plugin_names(kind: str) -> list[str]:
    """Return the names that other packages have registered."""
    return sorted(_entry_points(kind))


def load(kind: str, name: str, also: Iterable[str] = ()) -> Any:
    """Import a variant; `also` are names that mean something else, worth a hint."""
    if (where := VARIANTS[kind].get(name)) is not None:
        return import_name(where)
    point = _entry_points(kind).get(name)
    if point is None:
        raise _unknown(kind, name, also)
    try:
        found = point.load()
    except Exception as error:  # another package's code may raise anything
        raise _unusable(point, f"cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise _unusable(point, f"cannot be used: {point.value} is not a class")
    is_factory = not isinstance(found, type) and kind != "sources"
    return found if is_factory else check_members(kind, name, found)


def says(kind: str, name: str, what: str) -> bool:
    """Return what the class of a variant says about itself; False if it says nothing."""
    return bool(getattr(load(kind, name), what, False))


def check_members(kind: str, name: str, found: T) -> T:
    """Return a variant, its class or an object; raises ToolMissing for a plug-in that lacks a member."""
    point = None if name in VARIANTS[kind] else _entry_points(kind).get(name)
    if point is None:
        return found
    from segue import ports

    protocol = getattr(ports, _singular(kind).capitalize())
    needed = sorted(protocol.__abstractmethods__)
    if isinstance(found, type):  # only its objects need the properties
        needed = [one for one in needed if not isinstance(getattr(protocol, one), property)]
    elif kind == "sources":
        needed += ["kind", "key"]
    lacking = [one for one in needed if _lacks(found, one)]
    if lacking:
        raise _unusable(point, f"cannot be used: {point.value} has no {', '.join(lacking)}")
    return found


def _lacks(found: Any, member: str) -> bool:
    return getattr(getattr(found, member, None), "__isabstractmethod__", not hasattr(found, member))


def _unusable(point: EntryPoint, problem: str) -> ToolMissing:
    return ToolMissing(
        f"The plug-in {point.name!r} of {_package(point)} {problem}",
        hint="Update or remove that package",
    )


def check_name(kind: str, name: str, also: Iterable[str] = ()) -> None:
    """Raise UsageError for a name that nobody has registered; `also` are names that mean something else."""
    if name not in VARIANTS[kind] and name not in also and name not in plugin_names(kind):
        raise _unknown(kind, name, also)


def _unknown(kind: str, name: str, also: Iterable[str]) -> UsageError:
    known = sorted({*names(kind), *also})
    agent, slash, model = name.partition("/")
    meant = f" A model follows a colon: {agent}:{model}" if slash and agent in known else suggest(name, known)
    return UsageError(
        f"There is no {_singular(kind)} {name!r}.{meant}", hint=f"Known {kind}: {', '.join(known)}"
    )


def _singular(kind: str) -> str:
    return "delivery" if kind == "deliveries" else kind.removesuffix("s")


def find_culprit(error: BaseException) -> str:
    """Return the package whose plug-in took part when an error was raised; empty if none did."""
    modules = set()
    trace = error.__traceback__
    while trace is not None:
        modules.add(str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0])
        trace = trace.tb_next
    for kind in VARIANTS if modules - {"segue", "click", "asyncio"} else ():
        for point in _registered(kind):
            if point.module.partition(".")[0] in modules:
                return _package(point)
    return ""


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "an unknown package"
