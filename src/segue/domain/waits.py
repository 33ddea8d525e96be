"""What every task of a source waits for, when several are worked on at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from segue.domain.amounts import list_all
from segue.domain.footprint import Footprint, find_footprint
from segue.domain.graph import Dependency, WaitKind, Waits, sort_tasks
from segue.domain.task import Task, TaskKind, TaskStatus


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
        """Return the tasks that this one collides with, each with the paths: its own, and the one claimed."""
        found: dict[str, list[tuple[str, str]]] = {}
        for path in _outermost(footprint.changes):
            for place in self._nearest(path, and_inside=True):
                found.setdefault(place.task, []).append((path, place.path))
        for path in footprint.refers:
            for place in self._nearest(path, and_inside=False):
                found.setdefault(place.task, []).append((path, place.path))
        return found

    def claim(self, task: str, footprint: Footprint) -> None:
        """Claim the paths of a task, so that later tasks collide with it."""
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


_MOST_NAMED = 3
_NOTHING: Mapping[str, Sequence[str]] = {}


def plan_waits(tasks: Sequence[Task], *, touched: Mapping[str, Sequence[str]] = _NOTHING) -> Waits:
    """Return what each task waits for and why, in the order of the tasks, which must have their kinds.

    Those wait that would change the same paths: those a task names, and those it has `touched` before, by its
    key.
    """
    by_key = {task.key: task for task in tasks}
    stated = {task.key: [one for one in task.depends_on if one.kind.blocks] for task in tasks}
    sequence = [by_key[key] for key in sort_tasks(stated)]
    for key, dependency in _side_by_side(sequence, touched):
        stated[key].append(dependency)
    return {key: tuple(dependencies) for key, dependencies in stated.items()}


def _side_by_side(
    sequence: Sequence[Task], touched: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, Dependency]]:
    """Yield what follows from the marks of the source, from what tasks look at, and from footprints."""
    needed, known = _Known(), _Known()
    for task in sequence:
        needed.add(task.key, *(one for one in task.depends_on if one.kind.blocks))
        known.add(task.key, *(one for one in task.depends_on if one.kind.blocks))
    for key, dependency in _order(sequence):
        known.add(key, dependency)
        yield key, dependency
    for key, dependency in _looking_back(sequence):
        before = needed if dependency.kind.blocks else known
        if not all(before.has(key, other) for other in dependency.keys):
            before.add(key, dependency)
            yield key, dependency
    claims, others = Claims(), dict[str, tuple[Task, Footprint]]()
    for task in sequence:
        if not _is_open(task):
            continue
        footprint = find_footprint(task, touched.get(task.key, ()))
        for other, places in claims.collide(footprint).items():
            if not needed.has(task.key, other):
                why = _explain(task, footprint, *others[other], places)
                yield task.key, Dependency((other,), WaitKind.PATHS, why)
        claims.claim(task.key, footprint)
        others[task.key] = task, footprint


class _Known:
    """Whom tasks wait for anyway; tuples that tasks share are looked through once."""

    def __init__(self) -> None:
        self._waits: dict[str, list[tuple[str, ...]]] = {}
        self._sets: dict[int, frozenset[str]] = {}

    def add(self, key: str, *dependencies: Dependency) -> None:
        self._waits.setdefault(key, []).extend(one.keys for one in dependencies)

    def has(self, key: str, other: str) -> bool:
        return any(other in self._set(keys) for keys in self._waits.get(key, ()))

    def _set(self, keys: tuple[str, ...]) -> frozenset[str]:
        found = self._sets.get(id(keys))
        if found is None:
            found = self._sets[id(keys)] = frozenset(keys)
        return found


def _order(sequence: Sequence[Task]) -> Iterator[tuple[str, Dependency]]:
    """Yield the order that the source knows; where a task needs a later one, it is the other way round."""
    place = {task.key: number for number, task in enumerate(sequence)}
    last: dict[int, int] = {}
    for task in sequence:
        for one in task.depends_on:
            if one.kind.blocks:
                continue
            if id(one.keys) not in last:
                last[id(one.keys)] = max(place.get(key, -1) for key in one.keys)
            if last[id(one.keys)] < place[task.key]:
                yield task.key, one
            elif earlier := tuple(key for key in one.keys if place.get(key, -1) < place[task.key]):
                yield task.key, Dependency(earlier, one.kind, one.why)


def _looking_back(sequence: Sequence[Task]) -> Iterator[tuple[str, Dependency]]:
    """Yield what tasks wait for that look at the work of others: at a result, a whole story, a checkpoint."""
    open_tasks = [task for task in sequence if _is_open(task)]
    last = {story: task.key for task in open_tasks for story in _stories(task)}
    looked_at, ended = _Since(), _Since()
    for task in open_tasks:
        stories = _stories(task)
        ending = [story for story in stories if last[story] == task.key]
        if task.kind is TaskKind.VERIFY_ONLY:
            for scope in stories or [task.phase]:
                yield from _wait(task, WaitKind.PHASE, looked_at.take(scope), f"it looks at {_work(scope)}")
        else:
            for story in ending:
                yield from _wait(task, WaitKind.ORDER, ended.take(story), f"it is the last task of {story}")
        if task.checkpoint:
            yield from _wait(task, WaitKind.ORDER, ended.take(task.phase), "a checkpoint follows it")
        for since in (looked_at, ended):
            since.add(task.key, dict.fromkeys(("", task.phase, *stories)))


class _Since:
    """The tasks of each story and phase, and of the whole plan (""), since somebody has waited for them."""

    def __init__(self) -> None:
        self._keys: dict[str, list[str]] = {}

    def take(self, scope: str) -> tuple[str, ...]:
        """Return them, and begin a new list: the next task waits only for those that come after."""
        return tuple(self._keys.pop(scope, ()))

    def add(self, key: str, scopes: Iterable[str]) -> None:
        for scope in scopes:
            self._keys.setdefault(scope, []).append(key)


def _wait(task: Task, kind: WaitKind, keys: tuple[str, ...], why: str) -> Iterator[tuple[str, Dependency]]:
    if keys:
        yield task.key, Dependency(keys, kind, why)


def _work(scope: str) -> str:
    return f"what comes before it in {scope}" if scope else "everything before it"


def _is_open(task: Task) -> bool:
    """Return whether an agent will work on it; what a person does holds up only those that say so."""
    return task.status is TaskStatus.PENDING and task.kind is not TaskKind.HUMAN


def _stories(task: Task) -> list[str]:
    return task.story.split("+") if task.story else []


def _explain(
    task: Task, own: Footprint, other: Task, theirs: Footprint, places: Sequence[tuple[str, str]]
) -> str:
    """Say which paths two tasks share; a path that both name says most."""
    shared = [
        path for path, claimed in places if path == claimed and path in own.names and path in theirs.names
    ]
    if shared:
        marked = ", although both are marked [P]" if task.parallel and other.parallel else ""
        return f"both name {list_all(dict.fromkeys(shared), _MOST_NAMED)}{marked}"
    path, claimed = places[0]
    before = f"{other.key} {'names' if claimed in theirs.names else 'touched'} {claimed}"
    verb = "touched" if path in own.touched else "refers to"
    if path in own.names:
        verb = "names"
    more = f" ({len(places) - 1} more in common)" if len(places) > 1 else ""
    return f"{before} and it {verb} {'it' if path == claimed else path}{more}"
