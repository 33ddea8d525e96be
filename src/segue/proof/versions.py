"""Tell which dependencies have another version that only the product asks for.

Such a version decides no more about a check than the product itself does, which is the agent's as well. One
that the runner, the tests or another package may load decides about the check.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from email.parser import BytesHeaderParser
from pathlib import Path

import msgspec

from segue.proof.paths import Classifier, PathKind
from segue.proof.setup import Entries
from segue.proof.trees import list_naming
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
    """Return what is installed, by where it says so, less the version."""
    found = {}
    for path, place in files.items():
        if path.endswith(".dist-info/METADATA"):
            package = _read_python(path, place)
            found[f"{path.rpartition('.dist-info/')[0].rpartition('/')[0]}/{package.name}"] = package
        elif (name := _NODE.fullmatch(path)) and (one := _read_node(path, name[1], files)) is not None:
            found[path] = one
    return found


def find_bumps(before: Mapping[str, Path], after: Mapping[str, Path]) -> list[Package]:
    """Return the packages, as they were, that have another version now and that no other package needs."""
    old, new = list_packages(before), list_packages(after)
    needed = {name for one in old.values() for name in one.needs if name != one.name}
    changed = [one for where, one in old.items() if where in new and new[where].version != one.version]
    claims = Counter(path for one in old.values() for path in one.files)
    shared = {path for path, number in claims.items() if number > 1}
    return [
        msgspec.structs.replace(one, files=one.files - shared) for one in changed if one.name not in needed
    ]


async def ask_product(
    objects: Objects, classifier: Classifier, trees: Collection[Entries], bumps: Collection[Package]
) -> list[Package]:
    """Return the packages that the product's code names, and no test and no settings of a runner do."""
    found = []
    for one in bumps:
        kinds: set[PathKind] = set()
        for entries in trees:
            kinds |= {classifier.kind(path) for path in await list_naming(objects, entries, one.words)}
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
