"""Try the old versions of files that may be the product's or the check's: which of them decide the result?"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Protocol

from segue.domain.amounts import list_some
from segue.proof.compose import Comparison, Recipe
from segue.proof.doctests import has_examples, with_old_examples
from segue.proof.mentions import Mentions, language
from segue.proof.paths import PathKind
from segue.proof.runs import Observed, Runs
from segue.proof.support import passed

_MOST_TRIED = 3
"""Files that are tried one by one."""
_SHOWN = 3
_OLD_TESTS = Recipe("head", "base")
_BASE = Recipe("base", "base")


class _Run(Protocol):
    def __call__(self, recipe: Recipe, *, fixed: Mapping[str, str]) -> Awaitable[Observed]: ...


class Doubts:
    """Tries what a check says with old versions of changed files."""

    def __init__(self, comparison: Comparison, runs: Runs, doubtful: Collection[str], run: _Run) -> None:
        self._comparison, self._runs, self._run = comparison, runs, run
        self._doubtful = sorted(doubtful)
        self._decisive: list[str] = []

    async def try_old_versions(self) -> str:
        """Return why the level is limited: old tests pass only with the new version of such a file.

        Programs that tests bring together may depend on each other, and then say nothing.
        """
        if both := await self._find_own_checks():
            self._decisive += both
            return f"{list_some(both, _SHOWN)} is the check and what it checks"
        if gone := self._find_gone():
            return f"what failed is gone, although its file was not changed: {list_some(gone, _SHOWN)}"
        lost: set[str] = set()
        for group in await self._groups():
            found = await self._lose(_OLD_TESTS, dict.fromkeys(group, "base"))
            if found and not await self._depend_on_each_other(group):
                lost |= found
                self._decisive += await self._narrow(group)
        if not lost:
            return ""
        which = list_some(self._decisive, _SHOWN)
        what = list_some(sorted(lost - {""}), _SHOWN)
        words = "these old tests pass" if what else "the check passes"
        return f"{words} only with the new version of {which}{f': {what}' if what else ''}"

    def _find_gone(self) -> list[str]:
        """Return the cases that failed at the base and are not there any more, while others of them are."""
        before, now = self._runs.base.report, self._runs.new.report
        if before is None or now is None:
            return []
        bare = {key.partition("[")[0] for key in now.tests}
        failed = (before.tests[key] for key in before.failed if "[" in key and key not in now.tests)
        kept = (one for one in failed if one.id.partition("[")[0] in bare)
        return sorted(one.id for one in kept if one.file not in self._comparison.differing)

    async def name_both_sides(self) -> tuple[str, ...]:
        """Return the changed files that serve the product and the check, with the first changed line."""
        named = list(self._decisive)
        for path in sorted(self._comparison.mixed):
            before, after = [await self._comparison.text(side, path) for side in ("base", "head")]
            if with_old_examples(before, after) != after:
                named.append(path)
        return tuple([f"{path}:{await self._first_line(path)}" for path in dict.fromkeys(named)])

    async def _find_own_checks(self) -> list[str]:
        """Return the changed programs that are the check itself; examples in docstrings have old versions."""
        mixed = sorted(self._comparison.mixed)
        return [path for path in mixed if not has_examples(await self._comparison.text("base", path))]

    async def _groups(self) -> list[list[str]]:
        """Return what is tried together: all, if something else was changed that could have broken a test.

        Otherwise each with those that name it, as long as something else is left.
        """
        changed = set(self._comparison.changed(PathKind.CODE, PathKind.MERGED))
        if not self._doubtful or not self._passed(self._runs.base):
            return []
        if changed - set(self._doubtful):
            return [self._doubtful]
        askers = await Mentions(self._comparison.objects, self._comparison.head).find(self._doubtful)
        found = []
        for path in self._doubtful[:_MOST_TRIED]:
            group = {path}
            while more := {asker for one in group for asker in askers[one] if asker in changed} - group:
                group |= more
            found += [sorted(group)] if group != changed else []
        return found

    async def _depend_on_each_other(self, group: Sequence[str]) -> bool:
        """Return whether the new version of these programs does not fit the old product either."""
        if self._runs.base.report is None or not all(map(language, group)):
            return False
        return bool(await self._lose(_BASE, dict.fromkeys(group, "head"), times=1))

    async def _narrow(self, group: Sequence[str]) -> Sequence[str]:
        if len(group) == 1 or len(group) > _MOST_TRIED:
            return group
        return [one for one in group if await self._lose(_OLD_TESTS, {one: "base"})] or group

    async def _lose(self, recipe: Recipe, fixed: Mapping[str, str], times: int = 2) -> set[str]:
        """Return the old tests that do not pass with other versions of these files, however often tried."""
        lost = self._passed(self._runs.base) & self._passed(self._runs.regress)
        for _ in range(times):
            if lost:
                lost = lost - self._passed(await self._run(recipe, fixed=fixed))
        return lost

    def _passed(self, seen: Observed) -> set[str]:
        return passed(seen, self._runs.base)

    async def _first_line(self, path: str) -> int:
        before, after = [(await self._comparison.text(side, path)).splitlines() for side in ("base", "head")]
        pairs = enumerate(zip(before, after, strict=False), 1)
        return next((at for at, (old, new) in pairs if old != new), min(len(before), len(after)) + 1)
