"""What a task says, both versions of what it changed, and the old tests that this is about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from segue.proof.settle.asked import Words, asks_for_another
from segue.proof.settle.follows import find_said
from segue.proof.settle.python import read_python
from segue.proof.settle.renames import definitions, find_renames
from segue.proof.settle.tokens import read_other
from segue.proof.settle.units import CheckStrength, Renames, TestFile, Unit, means

_SOURCE = re.compile(r"\.(?:py|go|rs|[cm]?[jt]sx?|java|kt|rb|php|exs?|cs|swift|scala|c|cc|cpp|h|sh|bats)$")
_VALUES = re.compile(r"""(?<![\w.])\d+(?:\.\d+)?(?![\w.])|'[^'\n]+'|"[^"\n]+"|`[^`\n]+`""")


class OldTest(Struct, frozen=True):
    """A test of the base, and what became of it."""

    id: str
    file: str
    was_red: bool = False
    """Whether it failed at the base."""
    is_known: bool = False
    """Whether it failed before the run, so that it counts for nobody."""
    decides: bool = True
    """Whether its old version fails with the new code, or cannot be run any more."""
    is_silent: bool = False
    """Whether it is skipped now."""
    ran: bool = False
    """Whether its old version could be loaded with the new code."""
    whole: bool = False
    """Whether it stands for a file that could not be loaded."""
    contradicts: bool = False
    """Whether an assertion of its old version fails with the new code: then nothing asserts the same."""
    breaks: bool = False
    """Whether its old version fails with the new code, and not for want of a name."""


class TaskChange(Struct, frozen=True, dict=True):
    """What a task says, and both versions of what it changed."""

    words: str
    before: Mapping[str, str]
    """Tests and their support at the base: those that differ."""
    after: Mapping[str, str]
    code_before: Mapping[str, str] = {}
    """The product's files that differ, at the base."""
    code_after: Mapping[str, str] = {}
    running: Collection[str] | None = None
    """The tests that run now, by id; None: not known."""

    @cached_property
    def said(self) -> Words:
        """What the task says."""
        return Words(self.words)

    @cached_property
    def renames(self) -> Renames:
        """What the product's own diff has renamed."""
        return find_renames(self.code_before, self.code_after, self.before, self.after)

    @cached_property
    def old(self) -> dict[str, TestFile]:
        """The files of the base, with the names that things have now."""
        return _read(self.before, self.renames)

    @cached_property
    def new(self) -> dict[str, TestFile]:
        """The files as they are now."""
        return _read(self.after, Renames())

    @cached_property
    def support(self) -> list[str]:
        """What the base's tests use and what has no tests itself: data, helpers, settings."""
        known = [path for path in self.before if path not in self.code_before]
        return [path for path in known if not has_tests(self.old.get(path))]

    @cached_property
    def gone(self) -> set[str]:
        """Names that the product does not define any more."""
        return _defined(self.code_before) - _defined(self.code_after)

    @cached_property
    def known(self) -> set[str]:
        """Names that the changed files of the product define or defined, and their own."""
        stems = {
            re.sub(r"\.\w+$", "", path).rpartition("/")[2] for path in (*self.code_before, *self.code_after)
        }
        return _defined(self.code_before) | _defined(self.code_after) | stems

    @cached_property
    def fresh_values(self) -> set[str]:
        """Numbers and texts that the product has now in the place of others."""
        before, after = [
            {value for text in files.values() for value in _VALUES.findall(text)}
            for files in (self.code_before, self.code_after)
        ]
        return after - before if before - after else set()

    @cached_property
    def named(self) -> str:
        """The words that name what the product's change has put into it; empty: not all of it is named."""
        return find_said(self.said, self.code_before, self.code_after, asks_for_another)

    @cached_property
    def checks(self) -> tuple[Counter[str], Counter[str]]:
        """What all files assert now: in full, and bare."""
        every = [one for file in self.new.values() for unit in file.units if unit.name for one in unit.checks]
        sharp = [one for one in every if one.strength > CheckStrength.VOID]
        sharp += [replace(one, bare=one.weaker) for one in sharp if one.weaker]
        return Counter(one.text for one in sharp), Counter(one.bare for one in sharp)

    def find(self, path: str, name: str) -> tuple[TestFile, Unit] | tuple[None, None]:
        """Return the test of this name as it is now: in its own file, else in any."""
        own = [self.new[path]] if path in self.new else []
        for file in (*own, *self.new.values()):
            for unit in file.units:
                if unit.name == name:
                    return file, unit
        return None, None

    def is_idle(self, name: str) -> bool:
        """Return whether no test of this name runs."""
        known = self.running
        return known is not None and not any(means(one.partition("[")[0], name) for one in known)

    def is_switched_off(self, path: str, old: Unit) -> bool:
        """Return whether the text of an old test is still in its file, and no test runs it any more."""
        if not self.is_idle(old.name):
            return False
        rows = _lines(self.before[path])[old.line - 1 : old.end]
        named = next((at for at, row in enumerate(rows) if old.name in row), len(rows))
        body = rows[named + 1 :]
        others = [
            _lines(file.text)[unit.line - 1 : unit.end]
            for file in self.new.values()
            for unit in file.units
            if unit.name not in ("", old.name)
        ]
        return _has(_lines(self.after.get(path, "")), body) and not any(_has(one, body) for one in others)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def _has(lines: list[str], body: list[str]) -> bool:
    count = len(body)
    return bool(body) and any(lines[at : at + count] == body for at in range(len(lines) - count + 1))


def _read(files: Mapping[str, str], renames: Renames) -> dict[str, TestFile]:
    found: dict[str, TestFile] = {}
    for path, text in files.items():
        read = read_python(path, text, renames, files) if path.endswith(".py") else None
        if _SOURCE.search(path):
            found[path] = read or read_other(path, text, renames)
    return found


def _defined(files: Mapping[str, str]) -> set[str]:
    return set[str]().union(*map(definitions, files.values()))


def has_tests(file: TestFile | None) -> bool:
    """Return whether a file that was read has tests, and is not only used by them."""
    return file is not None and any(unit.name for unit in file.units)
