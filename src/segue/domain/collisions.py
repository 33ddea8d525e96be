"""Who has named a path last, or a folder around it: for finding tasks that would change the same files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from segue.domain.footprint import Footprint


class _Place:
    """A file or folder that somebody has named, or that contains one."""

    __slots__ = ("inside", "path", "task")

    def __init__(self, path: str) -> None:
        self.path = path
        self.task = ""
        """Who named it last; empty: nobody, or somebody who has named a folder around it since then."""
        self.inside: dict[str, _Place] = {}


class Claims:
    """The paths that the tasks so far would change.

    A task that collides with a path waits for the last one that claimed it; those before are waited for by
    that one already. So each path is a chain, however many tasks name it.
    """

    def __init__(self) -> None:
        self._root = _Place("")

    def collide(self, footprint: Footprint) -> dict[str, list[tuple[str, str]]]:
        """Return whom a task collides with, by what it names and what the other one has claimed."""
        found: dict[str, list[tuple[str, str]]] = {}
        for path in _outermost(footprint.changes):
            for place in self._nearest(path, and_inside=True):
                found.setdefault(place.task, []).append((path, place.path))
        for path in footprint.refers:
            for place in self._nearest(path, and_inside=False):
                found.setdefault(place.task, []).append((path, place.path))
        return found

    def claim(self, task: str, footprint: Footprint) -> None:
        """Let later tasks collide with this one."""
        for path in _outermost(footprint.changes):
            place = self._root
            for part in _parts(path):
                place = place.inside.setdefault(part, _Place(""))
            place.task, place.path, place.inside = task, path, {}

    def _nearest(self, path: str, and_inside: bool) -> Iterator[_Place]:
        """Yield the last claim of the path or of a folder around it, else those of what is inside."""
        nearest, place = None, self._root
        for part in _parts(path):
            below = place.inside.get(part)
            if below is None:
                break
            place = below
            nearest = place if place.task else nearest
        else:
            inside = list(_innermost(place)) if and_inside else []
            if inside:
                yield from inside
                return
        if nearest is not None:
            yield nearest


def _innermost(place: _Place) -> Iterator[_Place]:
    """Yield the claims inside that no deeper claim has waited for."""
    waiting = list(place.inside.values())
    while waiting:
        below = waiting.pop()
        if below.inside:
            waiting += below.inside.values()
        elif below.task:
            yield below


def _outermost(paths: Sequence[str]) -> Iterator[str]:
    """Yield the paths without those that are inside another one."""
    own = {_parts(path): path for path in paths}
    for parts, path in own.items():
        if not any(parts[:size] in own for size in range(1, len(parts))):
            yield path


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/"))
