"""What a file of tests asserts: its tests, and what each of them checks, as far as it can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum

from msgspec import Struct


class CheckStrength(IntEnum):
    """How much a check can tell."""

    VOID = 0
    """Nothing: it is true of every product."""
    TRUTH = 1
    """Whether there is something."""
    PART = 2
    """A kind, a bound, a part."""
    EXACT = 3
    """The one right answer."""


class Check(Struct, frozen=True):
    """One thing that a test asserts, for one set of values."""

    bare: str
    """In normal form."""
    setup: str
    """What happens before it, in normal form."""
    shape: str
    """The same without the values that are expected."""
    line: int
    strength: CheckStrength
    names: frozenset[str]
    """Names of the product and of others that it uses."""
    values: frozenset[str]
    """The values that it expects, as a text may name them."""
    weaker: str = ""
    """What follows from it, where that is known: `x` from `x is True`."""

    @property
    def text(self) -> str:
        """The check with everything that happens before it."""
        return f"{self.setup}\n{self.bare}"


class Unit(Struct, frozen=True):
    """One test of a file; without a name: what the file has besides its tests."""

    name: str
    line: int
    end: int
    checks: tuple[Check, ...]


class TestFile(Struct, frozen=True):
    """A file of tests."""

    __test__ = False

    path: str
    text: str
    units: tuple[Unit, ...]

    def find(self, test: str) -> Unit | None:
        """Return the unit that a runner's id means."""
        plain = test.partition("[")[0]
        found = [one for one in self.units if one.name and means(plain, one.name)]
        return max(found, key=lambda one: len(one.name), default=None)


def means(test: str, name: str) -> bool:
    """Return whether a runner's id means the test of this name."""
    at = test.rfind(name)
    if at < 0:
        return False
    before, after = test[:at], test[at + len(name) :]
    return (not before or before[-1] in ":./ >") and (not after or after[0] in ":/ #(")


class Renames(Struct, frozen=True):
    """What the product's own diff has renamed or moved."""

    names: Mapping[str, str] = {}
    """Names of functions, classes and the like."""
    dotted: Mapping[str, str] = {}
    """Modules, and what moved from one to another, as Python names them."""
    paths: Mapping[str, str] = {}
    """Files without their ending."""

    def name(self, name: str) -> str:
        """Return what a plain name is called now."""
        return self.names.get(name, name)

    def dot(self, name: str) -> str:
        """Return what a dotted name is called now."""
        for prefix in _prefixes(name):
            if prefix in self.dotted:
                name = self.dotted[prefix] + name[len(prefix) :]
                break
        return ".".join(self.names.get(part, part) for part in name.split("."))

    def path(self, path: str) -> str:
        """Return where a file without its ending is now."""
        return self.paths.get(path, path)


def _prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        yield ".".join(parts[:count])
