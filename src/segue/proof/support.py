"""Find what only a check uses, and what it uses together with the product.

A check's own files are those that its runner reports, that its command consists of, and that the check opens
although nothing but tests names them. What the product names is the product, wherever it is. Where neither is
sure, a file counts as product, and is tried later: with its old version the old tests must still pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Collection, Iterable, Mapping
from enum import StrEnum
from typing import Protocol

from segue.proof.compose import Comparison
from segue.proof.doctests import has_examples
from segue.proof.mentions import Mentions, MentionStrength, language
from segue.proof.mutation.source import has_only_values
from segue.proof.paths import SCRIPT_FOLDERS, PathKind, is_test_name
from segue.proof.report import TestOutcome
from segue.proof.runs import Observed

_MOST_FILES = 150
_MOST_STEPS = 6
_FRAMEWORK = re.compile(
    r"""^\s*(?:import|from|use|using|require\w*|\#include)\b.*\b(?:(?:py|unit|mini|vi|g|doc)?test|hypothesis|behave"""
    r"""|[jxn]unit|mocha|jest|chai|sinon|rspec|catch2|testify|phpunit)\b"""
    r"""|["'](?:testing|node:test|node:assert|assert)["'/]""",
    re.I | re.M,
)
_DERIVED = re.compile(r"(?:.*[-.])?lock(?:\..*|b)?|.*\.lock|go\.sum|.*-lock\.\w+", re.I)
"""What package managers write: it names versions and cannot weaken a check."""
_FOLDERS_OWN = ("__init__", "index", "mod")
"""Files that are imported by the name of their folder."""
_ENTRY_KEYS = ("main", "module", "exports", "type", "browser", "bin")
"""Keys of a package.json that say which file others get."""


class RunWith(Protocol):
    """Runs the check on the base, with other versions of some files."""

    def __call__(self, *, fixed: Mapping[str, str]) -> Awaitable[Observed]: ...


def passed(seen: Observed, base: Observed) -> set[str]:
    """Return the tests that passed; the empty id stands for a check that reports none on the base."""
    if base.report is None:
        return {""} if seen.exit_code == 0 else set()
    return set(seen.report.ids(TestOutcome.PASSED)) if seen.report is not None else set()


class FileRole(StrEnum):
    """What a file is for, as far as the base tells."""

    PRODUCT = "product"
    TEST = "test"
    CONTROL = "control"
    UNSURE = "unsure"
    """Only tests, or nothing, lead to it."""


class Support:
    """What a check uses, as measured on the base and on the work."""

    def __init__(self, comparison: Comparison, named: Collection[str], base: Observed) -> None:
        """`named` are the files that the command consists of."""
        self._comparison, self._named, self._base = comparison, named, base
        self._hints = comparison.hints
        comparison.kinds = dict(comparison.hints)
        comparison.mixed = set()
        self._reported = _files(base)
        self._opened = None if base.opened is None else set(base.opened)
        self._unnamed: set[str] = set()
        self._roles: dict[str, FileRole] = {}
        self._graph: dict[str, Mapping[str, MentionStrength]] = {}
        self._before = Mentions(comparison.objects, comparison.base)
        self._after = Mentions(comparison.objects, comparison.head)
        self.doubtful: set[str] = set()
        """Changed files that count as product, although they may be what only the check uses."""

    async def sort(self) -> None:
        """Correct what the names of the changed files suggest by what the base shows."""
        changed = [path for path in self._comparison.differing if self._hints[path] is not PathKind.SHADOW]
        old = [path for path in changed if path in self._comparison.base]
        await self._explore(old)
        for path in old:
            await self._sort_old(path)
        new = [path for path in changed if path not in self._comparison.base]
        wanted, used = await self._before.find(new), await self._after.find(new)
        for path in new:
            await self._sort_new(path, wanted[path], used[path])

    async def learn(self, new: Observed) -> bool:
        """Sort what was added by how the work's own run used it; return whether something changed."""
        kinds, before = self._comparison.kinds, dict(self._comparison.kinds)
        opened = None if new.opened is None else set(new.opened)
        for path in _files(new) & set(self._comparison.differing):
            is_new = path not in self._comparison.base and kinds[path] is PathKind.CODE
            if is_new and not has_examples(await self._comparison.text("head", path)):
                kinds[path] = PathKind.TEST
        for path in self._unnamed:
            if opened is not None and path in opened and kinds[path] is PathKind.CODE:
                if language(path) or self._base.report is None:
                    self.doubtful.add(path)
                else:
                    kinds[path] = PathKind.CONTROL
        if opened is not None and self._opened is not None:
            self.doubtful &= opened | self._opened | self._links()
        return kinds != before

    async def unmask(self, new: Observed, run: RunWith) -> bool:
        """Take doubtful files for support if they alone turn a red check green; return whether they do.

        So with the old product: then the product, which was changed too, is not what makes it green.
        """
        changed = {path for path in self._comparison.changed(PathKind.CODE) if language(path)} - self.doubtful
        if new.opened is not None:  # what the check does not look at is nothing that it could be about
            changed &= set(new.opened)
        red = passed(new, self._base) - passed(self._base, self._base)
        if not (self.doubtful and changed and red):
            return False
        seen = passed(await run(fixed=dict.fromkeys(self.doubtful, "head")), self._base)
        askers = await self._before.find(sorted(changed))
        near = {asker for several in askers.values() for asker in several}
        tests = new.report.tests if new.report is not None else {}
        if not any(not test or tests[test].file in near for test in red & seen):
            return False
        for path in self.doubtful:
            self._comparison.kinds[path] = PathKind.TEST if language(path) else PathKind.CONTROL
        self.doubtful = set()
        return True

    async def _sort_old(self, path: str) -> None:
        hint, role = self._hints[path], self._role(path)
        kinds = self._comparison.kinds
        if hint is PathKind.MERGED:
            if await self._leads_elsewhere(path):
                self.doubtful.add(path)
            return
        if path in self._reported and await self._is_mixed(path):
            kinds[path] = PathKind.CODE
            self._comparison.mixed.add(path)
            return
        if hint is PathKind.CONTROL and self._is_opened(path) and path not in self._reported:
            return
        if path in self._named and self._checks_itself(path):
            kinds[path] = PathKind.CODE
            self._comparison.mixed.add(path)
            return
        if role is FileRole.UNSURE and await self._is_of_tests(path):
            role = FileRole.TEST
        by_role = {FileRole.TEST: PathKind.TEST, FileRole.CONTROL: PathKind.CONTROL}
        kinds[path] = by_role.get(role, PathKind.CODE)
        if role is FileRole.UNSURE and self._is_opened(path):
            self.doubtful.add(path)

    async def _sort_new(
        self, path: str, wanted: Mapping[str, MentionStrength], used: Mapping[str, MentionStrength]
    ) -> None:
        hint, kinds = self._hints[path], self._comparison.kinds
        askers = [asker for asker in used if not self._is_of_check(asker)]
        if hint is PathKind.TEST and any(used[one] is MentionStrength.STRONG for one in askers):
            kinds[path] = PathKind.CODE
        if hint is not PathKind.CODE or askers or wanted:
            return
        if not used:
            self._unnamed.add(path)
        elif not language(path) or _FRAMEWORK.search(await self._comparison.text("head", path)):
            kinds[path] = PathKind.TEST

    def _is_of_check(self, path: str) -> bool:
        """Return whether a file is known to be a test, or to decide how the check runs."""
        known = self._comparison.kinds.get(path)
        return path in self._reported or path in self._named or known not in (PathKind.CODE, PathKind.SHADOW)

    async def _explore(self, paths: Iterable[str]) -> None:
        """Find who names these files, who names those, and so on."""
        pending = [path for path in paths if not self._is_end(path)]
        for _ in range(_MOST_STEPS):
            if not pending or len(self._graph) > _MOST_FILES:
                return
            self._graph |= await self._before.find(pending)
            askers = {asker for path in pending for asker in self._graph[path]}
            pending = [path for path in askers if path not in self._graph and not self._is_end(path)]

    def _is_end(self, path: str) -> bool:
        return self._role_of_its_own(path) is not None

    def _role_of_its_own(self, path: str) -> FileRole | None:
        """Return what a file is for, if who names it does not matter."""
        hint = self._hints[path]
        if path in self._reported:
            return FileRole.TEST
        if path in self._named:
            return FileRole.TEST if language(path) and hint is not PathKind.CONTROL else FileRole.CONTROL
        if hint in (PathKind.CONTROL, PathKind.MERGED):
            return FileRole.CONTROL
        if path not in self._comparison.differing and not self._is_opened(path):
            return FileRole.TEST if hint is PathKind.TEST else FileRole.PRODUCT
        return None

    def _role(self, path: str) -> FileRole:
        """Return what a file of the base is for."""
        known = self._roles.get(path) or self._role_of_its_own(path)
        if known is None and path not in self._graph:
            known = FileRole.PRODUCT  # too far away to be looked at
        if known is None:
            self._roles[path] = FileRole.UNSURE  # files may name each other
            known = self._judge(path, self._graph[path])
        self._roles[path] = known
        return known

    def _judge(self, path: str, askers: Mapping[str, MentionStrength]) -> FileRole:
        roles = {asker: self._role(asker) for asker in askers}
        of_product = [one for one in askers if roles[one] is FileRole.PRODUCT]
        strong = [one for one in of_product if askers[one] is MentionStrength.STRONG]
        # What only writes a file of data, such as a script that makes it, does not use it.
        if any(language(path) or self._is_opened(one) for one in strong):
            return FileRole.PRODUCT
        if language(path) and any(self._is_subject(path, one) for one in askers):
            return FileRole.PRODUCT
        if self._hints[path] is PathKind.TEST:
            return FileRole.TEST
        if not askers:
            return self._judge_unnamed(path)
        unsure = any(
            roles[one] is FileRole.UNSURE and askers[one] is MentionStrength.STRONG for one in askers
        )
        if unsure and not language(path):
            return FileRole.PRODUCT
        if of_product or language(path):
            return FileRole.UNSURE
        return FileRole.TEST if self._has_other_product(path) else FileRole.PRODUCT

    def _judge_unnamed(self, path: str) -> FileRole:
        """Return what a file is for that nothing names: what opens it knows it by its name or place."""
        if not self._is_opened(path) or _DERIVED.fullmatch(path.rpartition("/")[2]):
            return FileRole.PRODUCT
        # A check without tests may look at everything, as a linter does: what it opens may be its subject.
        return FileRole.UNSURE if language(path) or self._base.report is None else FileRole.CONTROL

    def _is_subject(self, path: str, test: str) -> bool:
        """Return whether a test that names a file is called after it, or after the folder it stands for."""
        folder, _, name = path.rpartition("/")
        stem = name.partition(".")[0]
        if stem in _FOLDERS_OWN:
            stem = folder.rpartition("/")[2]
        stem = re.sub(r"[^a-z0-9]", "", stem.lower())
        name = re.sub(r"[^a-z0-9]", "", test.rpartition("/")[2].lower())
        return len(stem) > 1 and stem in name and self._role(test) is FileRole.TEST

    def _has_other_product(self, path: str) -> bool:
        """Return whether the check opens code besides its own, which data could be compared with."""
        if self._opened is None:
            return True
        return any(language(one) and not self._is_of_check(one) for one in self._opened if one != path)

    async def _is_of_tests(self, path: str) -> bool:
        """Return whether a program that only tests name uses their framework, or has nothing but values."""
        text = await self._comparison.text("base", path) if language(path) else ""
        return bool(_FRAMEWORK.search(text)) or has_only_values(path, text)

    async def _is_mixed(self, path: str) -> bool:
        """Return whether a file with tests is product as well, as one with examples in its docstrings."""
        if self._hints[path] is PathKind.TEST or not path.endswith(".py"):
            return False
        return has_examples(await self._comparison.text("base", path))

    def _checks_itself(self, path: str) -> bool:
        """Return whether a command is the product with its tests inside: it opens no other program."""
        if self._opened is None or not language(path) or path.partition("/")[0] in SCRIPT_FOLDERS:
            return False
        others = [one for one in self._opened if language(one) and one != path]
        alone = not any(self._is_opened(one) for one in self._comparison.differing if one != path)
        return alone and not others and not is_test_name(path)

    async def _leads_elsewhere(self, path: str) -> bool:
        """Return whether a package.json says that others get another file than before."""
        if not path.endswith("package.json"):
            return False
        found = []
        for side in ("base", "head"):
            try:
                keys = json.loads(await self._comparison.text(side, path) or "{}")
                found.append([keys.get(key) for key in _ENTRY_KEYS])
            except (ValueError, AttributeError):
                return True
        return found[0] != found[1]

    def _is_opened(self, path: str) -> bool:
        """Return whether the check opens a file of the base; True if that is not known."""
        return self._opened is None or path in self._opened or path in self._links()

    def _links(self) -> set[str]:
        sides = (self._comparison.base, self._comparison.head)
        return {path for side in sides for path, entry in side.items() if entry.is_link}


def _files(seen: Observed) -> set[str]:
    report = seen.report
    return {case.file for case in report.tests.values() if case.file} if report is not None else set()
