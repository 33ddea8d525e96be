"""Decide which environment judges a task: that of the base, and the task's own only where nothing else can.

What is built with a task's build inputs was built by the agent's scripts. So work is judged in the
environment of the base. It must also pass in its own; where it passes nowhere else, the proof says so, and is
worth less the more that environment could have decided by itself.

A dependency with another version that only the product asks for decides no more about a check than the
product itself does. One that the runner, the tests or another package may load decides about the check.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from email.parser import BytesHeaderParser
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from segue.domain.proof import CheckResult, CheckState, Seal
from segue.proof.decide import list_ids
from segue.proof.inputs import BOOKKEEPING, runs_at_start, walk_files
from segue.proof.paths import Classifier, PathKind
from segue.proof.setup import Entries, Environment, list_names
from segue.proof.trees import find_mentions
from segue.system.git.objects import Objects

_NODE = re.compile(r"(?:.*/)?node_modules/((?:@[^/]+/)?[^/@.][^/]*)/package\.json")
_NEEDS = ("dependencies", "peerDependencies", "optionalDependencies")
_LARGEST = 1024**2


class Package(msgspec.Struct, frozen=True):
    """One installed package."""

    name: str
    version: str
    words: frozenset[str]
    """How code names it."""
    needs: frozenset[str]
    files: frozenset[str]


def list_packages(files: Mapping[str, Path]) -> dict[str, Package]:
    """Return the installed packages, by where their metadata is, without the version."""
    found = {}
    for path, place in files.items():
        if path.endswith(".dist-info/METADATA"):
            package = _read_python(path, place)
            found[f"{path.rpartition('.dist-info/')[0].rpartition('/')[0]}/{package.name}"] = package
        elif (name := _NODE.fullmatch(path)) and (one := _read_node(path, name[1], files)) is not None:
            found[path] = one
    return found


def find_bumps(before: Mapping[str, Path], after: Mapping[str, Path]) -> list[Package]:
    """Return the packages that have another version now and that no other package needs, as they were."""
    old, new = list_packages(before), list_packages(after)
    needed = {name for one in old.values() for name in one.needs if name != one.name}
    changed = [one for where, one in old.items() if where in new and new[where].version != one.version]
    claims = Counter(path for one in old.values() for path in one.files)
    shared = {path for path, number in claims.items() if number > 1}
    return [
        msgspec.structs.replace(one, files=one.files - shared) for one in changed if one.name not in needed
    ]


async def filter_by_product(
    objects: Objects, classifier: Classifier, trees: Collection[Entries], bumps: Collection[Package]
) -> list[Package]:
    """Return the packages that the product's code names, but no test and no settings of a runner."""
    found = []
    for one in bumps:
        kinds: set[PathKind] = set()
        for entries in trees:
            kinds |= {classifier.kind(path) for path in await find_mentions(objects, entries, one.words)}
        if PathKind.CODE in kinds and kinds <= {PathKind.CODE, PathKind.MERGED}:
            found.append(one)
    return found


def _read_python(path: str, place: Path) -> Package:
    head = BytesHeaderParser().parsebytes(place.read_bytes()[:_LARGEST])
    site = path.rpartition("/")[0].rpartition("/")[0]
    record = place.with_name("RECORD")
    lines = record.read_text("utf-8", "replace").splitlines() if record.is_file() else []
    own = [line.split(",")[0] for line in lines if line]
    tops = {name.partition("/")[0].removesuffix(".py") for name in own if not name.startswith("..")}
    needs = (
        re.split(r"[^\w.-]", str(one).strip(), maxsplit=1)[0] for one in head.get_all("Requires-Dist", [])
    )
    return Package(
        _normal(str(head["Name"])),
        str(head["Version"]),
        frozenset(top for top in tops if top.isidentifier()),
        frozenset(map(_normal, needs)),
        frozenset(os.path.normpath(f"{site}/{name}") for name in own),
    )


def _read_node(path: str, name: str, files: Mapping[str, Path]) -> Package | None:
    try:
        facts = msgspec.json.decode(files[path].read_bytes()[:_LARGEST], type=dict[str, object])
    except msgspec.DecodeError:
        return None
    needs = {one for part in _NEEDS if isinstance(found := facts.get(part), dict) for one in found}
    return Package(
        name,
        str(facts.get("version")),
        frozenset((name,)),
        frozenset(needs),
        frozenset(_node_files(path.removesuffix("package.json"), files)),
    )


def _node_files(folder: str, files: Mapping[str, Path]) -> Iterator[str]:
    """Yield what is in a package's folder, without the packages in it, and the links to its programs."""
    programs = f"{folder[: folder.rindex('node_modules/')]}node_modules/.bin/"
    for path, place in files.items():
        if path.startswith(folder):
            if "/node_modules/" not in path[len(folder) - 1 :]:
                yield path
        elif path.startswith(programs) and place.is_symlink():
            leads = os.path.normpath(f"{programs}{place.readlink()}")
            if leads.startswith(folder):
                yield path


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


_METADATA = (".dist-info", ".egg-info")
_MOST_DOUBTS = 20


class EnvironmentDifference(Struct, frozen=True):
    """How one environment differs from another."""

    any: bool = False
    extended: tuple[str, ...] = ()
    """What was added to the dependencies."""
    rewritten: tuple[str, ...] = ()
    """What was changed or removed, and what runs without the product asking for it."""
    versions: tuple[str, ...] = ()
    """Dependencies with another version that only the product asks for."""
    decisive: tuple[str, ...] | None = None
    """What was rewritten beside those; None: everything."""


class Environments(Struct, frozen=True):
    """The environments for one task."""

    base: Environment | None = None
    """What judges; None: there are no setup commands, or there is nothing before the task."""
    own: Environment | None = None
    """What the task's own build inputs make; None: the same."""
    difference: EnvironmentDifference = EnvironmentDifference()
    inputs: tuple[str, ...] = ()
    """The build inputs that the task changed."""
    is_first: bool = False
    """Whether there was nothing before the task, so that only its own build inputs can make one."""

    def not_made(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return the paths of dependencies that no setup command has made in every environment."""
        every = [set(one.facts.folders) for one in (self.base, self.own) if one is not None]
        made = tuple(f"{folder}/" for folder in set.intersection(*every)) if every else ()
        return tuple(path for path in paths if not made or not f"{path}/".startswith(made))


def find_inputs(base: Environment, own: Environment, before: Entries, after: Entries) -> tuple[str, ...]:
    """Return what setup commands looked at and a task has changed."""
    found = base.facts.find_changed(after, list_names(after)) | own.facts.find_changed(
        before, list_names(before)
    )
    return tuple(sorted(found))


def compare(base: Environment, own: Environment, root: Path, classifier: Classifier) -> EnvironmentDifference:
    """Compare what a task's build inputs make with what those of the base do.

    `root` is where the commands saw the tree. Compiled files of the task's are removed: they need not say
    what their sources do.
    """
    for folder, names, _ in os.walk(own.place / "new"):
        if "__pycache__" in names:
            shutil.rmtree(Path(folder, "__pycache__"))
            names.remove("__pycache__")
    before, after = _files(base), _files(own)
    sites = {path.rpartition("/")[0].rpartition("/")[0] for path in (*before, *after) if _in_metadata(path)}
    installed = {*base.facts.folders, *own.facts.folders, *sites - {""}}
    product = set(_product(base, before, root))
    roots = (str(root), str(own.home / "tree"))
    different = [
        path for path in {**before, **after} if not _is_same(before.get(path), after.get(path), base, own)
    ]
    extended, rewritten = [], []
    for path in different:
        if path in product or (_in_metadata(path) and not path.endswith("/entry_points.txt")):
            continue
        is_new, content = path not in before, after.get(path)
        if not any(path.startswith(f"{folder}/") for folder in installed):
            if classifier.kind(path, new=True) not in (PathKind.CODE, PathKind.MERGED):
                rewritten.append(path)
        elif is_new and content is not None and not _decides(content, path, roots):
            extended += [path] if not path.endswith(".pth") else []
        else:
            rewritten.append(path)
    return EnvironmentDifference(bool(different), tuple(sorted(extended)), tuple(sorted(rewritten)))


async def find_versions(
    difference: EnvironmentDifference,
    objects: Objects,
    classifier: Classifier,
    environments: tuple[Environment, Environment],
    trees: tuple[Entries, Entries],
) -> EnvironmentDifference:
    """Add the rewritten packages that are another version of something that only the product asks for."""
    if not difference.rewritten:
        return difference
    before, after = [await asyncio.to_thread(_files, one) for one in environments]
    bumps = await filter_by_product(objects, classifier, trees, find_bumps(before, after))
    own = {path for one in bumps for path in one.files if not runs_at_start(path)}
    return replace(
        difference,
        versions=tuple(one.name for one in bumps),
        decisive=tuple(path for path in difference.rewritten if path not in own),
    )


def _files(environment: Environment) -> dict[str, Path]:
    made = environment.place / "new"
    found = (Path(entry.path) for entry in walk_files(made, ("__pycache__",)))
    return {os.path.relpath(path, made): path for path in found if path.name not in BOOKKEEPING}


def _in_metadata(path: str) -> bool:
    return path.rpartition("/")[0].endswith(_METADATA)


def _is_same(first: Path | None, second: Path | None, base: Environment, own: Environment) -> bool:
    if first is None or second is None:
        return False
    if first.is_symlink() or second.is_symlink():
        links = [str(place.readlink()) if place.is_symlink() else "" for place in (first, second)]
        return links[0] == links[1].replace(str(own.place), str(base.place))
    if first.stat().st_mode != second.stat().st_mode:
        return False
    one, two = first.read_bytes(), second.read_bytes()
    # On a copy, environments name the folder in which they were made.
    return one == two or one == two.replace(os.fsencode(own.place), os.fsencode(base.place))


def _product(base: Environment, files: dict[str, Path], root: Path) -> Iterator[str]:
    """Yield the files of what was installed from the tree itself: product, wherever it is."""
    for path, place in files.items():
        if not path.endswith("/direct_url.json") or not _in_metadata(path):
            continue
        from_tree = any(f"file://{one}".encode() in place.read_bytes() for one in (root, base.home / "tree"))
        record = place.with_name("RECORD")
        if from_tree and record.is_file():
            site = path.rpartition("/")[0].rpartition("/")[0]
            lines = record.read_text("utf-8", "replace").splitlines()
            yield from (os.path.normpath(f"{site}/{line.split(',')[0]}") for line in lines if line)


def _decides(place: Path, path: str, roots: tuple[str, ...]) -> bool:
    """Return whether a new file has a say without the product asking for it."""
    if path.endswith(".pth") and not place.is_symlink():
        lines = place.read_text("utf-8", "replace").splitlines()
        return any(line.strip() and not line.startswith((*roots, "#")) for line in lines)
    if path.endswith("/entry_points.txt"):
        return b"pytest11" in place.read_bytes()
    return runs_at_start(path)


_OWN = "judged in the environment that its own build inputs make"


def join(first: CheckResult, second: CheckResult, found: Environments, wrong: tuple[str, ...]) -> CheckResult:
    """Combine what a check says in the environment of the base with what it says in the task's own.

    `wrong` are tests that fail in the first, but not because something is missing there.
    """
    named, doubts = list_ids(found.inputs), found.difference.rewritten
    own, base = f"{_OWN} ({named})", f"judged in the environment of the base, without its changes to {named}"
    if not second.ok:
        return replace(second, environment=own)
    if first.state is CheckState.REFUTED:
        return replace(first, environment=base)
    if first.ok and (first.state is not CheckState.NOTHING or second.state is CheckState.NOTHING):
        weak = [f"its build inputs ({named}) make an environment with other code: {list_ids(doubts)}"]
        return replace(first, environment=base, weaknesses=(*first.weaknesses, *(weak if doubts else ())))
    more = [*doubts, *found.difference.extended]
    weak = [f"{own}, which has other or more code than the base's: {list_ids(more)}"] if more else []
    result = replace(second, environment=own, weaknesses=(*second.weaknesses, *weak))
    if not doubts or not wrong:
        return result
    reason = (
        f"It passes only with what its own build inputs make, unlike those of the base: {list_ids(doubts)}."
    )
    return replace(result, state=CheckState.CONTESTED, reason=reason, output=first.output, broken=wrong)


def judged_by_own(result: CheckResult) -> bool:
    """Return whether a check was decided by the environment that the task's own build inputs make."""
    return result.environment.startswith(_OWN)


def name_first(result: CheckResult) -> CheckResult:
    """Note that only the task's own build inputs could make the environment of a check."""
    words = f"{_OWN}, because there was nothing before it"
    return replace(result, environment=words, weaknesses=(*result.weaknesses, words))


def lower_seal(seal: Seal, found: Environments, result: CheckResult) -> tuple[Seal, Sequence[str]]:
    """Return how well a check is sealed in such an environment, and why."""
    by_own, difference = judged_by_own(result), found.difference
    carried = (found.base.facts.doubts or []) if found.base is not None else []
    weak = [f"the environment has other code than when the run began: {list_ids(carried)}"] if carried else []
    # Without its report nobody knows what runs the tests, and one of these may be that.
    is_known = result.runner and result.runner not in difference.versions
    rewritten = difference.rewritten
    if by_own and (rewritten if difference.decisive is None or not is_known else difference.decisive):
        return Seal.NONE, weak
    is_weak = bool(carried) or (by_own and (found.is_first or bool(difference.extended or rewritten)))
    return (Seal.WEAK if is_weak and seal is Seal.SEALED else seal), weak


def add_doubts(base: Environment, rewritten: Collection[str]) -> list[str]:
    """Return the doubts about an environment, with those about the one before it."""
    return list(dict.fromkeys((*(base.facts.doubts or ()), *rewritten)))[:_MOST_DOUBTS]
