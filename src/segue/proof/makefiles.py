"""Makefiles that are product and check at once: what a check's own targets need is the check's."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

_RULE = re.compile(r"([^\s#=:][^=:#]*?)\s*::?(?!=)(.*)")
_VARIABLE = re.compile(r"(?:(?:export|override)\s+)*([\w.-]+)\s*(?:[:?+!]|::)?=(.*)")
_USED = re.compile(r"\$[({]([\w.-]+)|\$(\w)")
_ALWAYS = ("SHELL", "MAKEFLAGS", "GNUMAKEFLAGS", ".SHELLFLAGS", ".RECIPEPREFIX", ".DEFAULT_GOAL", "MAKE")


class _Piece(Struct, frozen=True):
    """A rule with its recipe, a variable, or something else."""

    text: str
    targets: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    variable: str = ""

    @property
    def uses(self) -> set[str]:
        return {name or letter for name, letter in _USED.findall(self.text)}


def merge_makefile(base: str, head: str, goals: Collection[str]) -> str | None:
    """Return the head's Makefile with the base's rules for these goals, and what they need.

    Without known goals, all rules of the base count. None: other lines differ, so that nobody can tell.
    """
    old, new = list(_split(base)), list(_split(head))
    if base and [one.text for one in _others(old)] != [one.text for one in _others(new)]:
        return None
    targets = _closure(old, goals)
    variables = _variables(old, targets)

    def is_control(piece: _Piece) -> bool:
        special = any(one.startswith(".") and one != ".PHONY" for one in piece.targets)
        return special or not targets.isdisjoint(piece.targets) or piece.variable in variables

    parts = [
        *(one.text for one in new if not one.targets and not is_control(one)),
        *(one.text for one in old if one.variable and is_control(one)),
        *(one.text for one in old if one.targets and is_control(one)),
        *(one.text for one in new if one.targets and not is_control(one)),
    ]
    return "\n".join(parts) + "\n" if parts else ""


def _closure(pieces: Collection[_Piece], goals: Collection[str]) -> set[str]:
    """Return the targets that goals need; all of them, if none of the goals is known."""
    known = {target for piece in pieces for target in piece.targets if not target.startswith(".")}
    pending = list(known.intersection(goals))
    if not pending:
        return known | set(goals)
    found: set[str] = set()
    while pending:
        target = pending.pop()
        if target not in found:
            found.add(target)
            pending += [need for one in pieces if target in one.targets for need in one.needs]
    return found | set(goals)


def _variables(pieces: Collection[_Piece], targets: set[str]) -> set[str]:
    pending = {name for one in pieces if not targets.isdisjoint(one.targets) for name in one.uses}
    found = set(_ALWAYS)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending |= {used for one in pieces if one.variable == name for used in one.uses}
    return found


def _others(pieces: Iterable[_Piece]) -> list[_Piece]:
    return [one for one in pieces if not one.targets and not one.variable]


def _split(text: str) -> Iterator[_Piece]:
    """Yield the pieces of a Makefile; comments and empty lines belong to the piece before."""
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    groups: list[list[str]] = []
    for line in lines:
        is_inside = line.startswith("\t") or not line.strip() or line.startswith("#")
        if is_inside and groups:
            groups[-1].append(line)
        elif line.strip() and not line.startswith("#"):
            groups.append([line])
    for group in groups:
        yield _read(group[0], "\n".join(line for line in group if line.strip() and not line.startswith("#")))


def _read(first: str, text: str) -> _Piece:
    if variable := _VARIABLE.fullmatch(first):
        return _Piece(text, variable=variable[1])
    if rule := _RULE.fullmatch(first):
        needs = rule[2].partition(";")[0].replace("|", " ").split()
        return _Piece(text, tuple(rule[1].split()), tuple(needs))
    return _Piece(text)
