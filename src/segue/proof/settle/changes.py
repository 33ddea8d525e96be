"""Settle the changes of old tests: by the task's own words, or because they assert the same as before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from msgspec.structs import replace

from segue.domain.proof import ChangedTest, HowSettled
from segue.proof.settle.asked import ALTER, REMOVE, REWRITE, SKIP, quote
from segue.proof.settle.task import OldTest, TaskChange, has_tests
from segue.proof.settle.tokens import has_grown, only_waits
from segue.proof.settle.units import Check, CheckStrength, TestFile, Unit

_NAME = re.compile(r"[A-Za-z_]\w*")
_IMPORT_WORDS = frozenset(["import", "from", "as", "default", "type", "require", "const", "let", "var"])
_SWITCHED_OFF = "It is run by nothing any more; nothing in the task asks for that."
_CALL = re.compile(r"[\w.()'\", ]*\w\([^()=]*\)")
"""A line that calls something, and sets nothing."""
_CALLED = re.compile(r"(\w+)\(")
_ADDS = re.compile(r"(?i)\b(?:add|append|extend|insert)s?\b")
_TOKENS = re.compile(r"[A-Za-z_]{3,}|\d+")


def settle(change: TaskChange, tests: Iterable[OldTest]) -> tuple[ChangedTest, ...]:
    """Return what became of tests whose files, or whose support, a task has changed."""
    found: dict[tuple[str, str], ChangedTest] = {}
    astray: list[OldTest] = []
    for test in sorted(_spread(change, tests), key=lambda one: not one.decides):
        file, unit = _find_old(change, test)
        if file is None or unit is None or (test.ran and _is_untouched(change, file, unit, test)):
            astray += [test] if test.decides else []
        elif (file.path, unit.name) not in found:
            one = _settle_unit(change, file, unit, test)
            if one is not None:
                found[file.path, unit.name] = one
    listed = [*found.values(), *(_settle_support(change, astray) if astray else ())]
    return tuple(sorted(dict.fromkeys(listed), key=lambda one: (one.path, one.line)))


def _spread(change: TaskChange, tests: Iterable[OldTest]) -> Iterable[OldTest]:
    """Yield the tests; for a file that could not be loaded, those that it has."""
    for test in tests:
        file = change.old.get(test.file)
        named = [unit for unit in file.units if unit.name] if file is not None and test.whole else []
        for unit in named:
            yield replace(test, id=f"{test.file}::{unit.name}", whole=False)
        if not named:
            yield test


def _find_old(change: TaskChange, test: OldTest) -> tuple[TestFile, Unit] | tuple[None, None]:
    """Return what the base has of a test; one whose file nobody knows is looked for in all of them."""
    files = [change.old[test.file]] if test.file in change.old else []
    for file in files if test.file else change.old.values():
        unit = file.find(test.id)
        if unit is not None:
            return file, unit
    return None, None


def _is_untouched(change: TaskChange, file: TestFile, unit: Unit, test: OldTest) -> bool:
    """Return whether a test was left as it is, so that something which it uses must have been changed."""
    now, same = change.find(file.path, unit.name)
    if now is None or same is None or now.path != file.path or not test.decides:
        return False
    others = [path for path in change.support if path != file.path]
    return bool(others) and _lines_of(file, unit) == _lines_of(now, same) and not test.is_silent


def _lines_of(file: TestFile, unit: Unit) -> list[str]:
    return file.text.splitlines()[unit.line - 1 : unit.end]


def _settle_unit(change: TaskChange, file: TestFile, unit: Unit, test: OldTest) -> ChangedTest | None:
    """Return what became of one test; None: nothing that anybody needs to know."""
    now = change.find(file.path, unit.name)[1]
    lost = _lost(change, unit, strict=False) or (_lost(change, unit, strict=True) if test.decides else [])
    path, line = _place(change, file, unit)
    if not lost and not (test.is_silent or test.contradicts):
        if not test.decides and path == file.path and now is not None:
            return None
        if _imports_are_fine(change, file):
            why = "It asserts the same as before" if now else "Other tests assert the same"
            return ChangedTest(path, line, test.id, HowSettled.MECHANICAL, f"{why}.")
    hides = test.contradicts and not lost  # nobody can have asked for what cannot be read
    why = "" if hides else _find_words(change, file, unit, now, lost, test)
    how = HowSettled.ASKED if why else HowSettled.UNSETTLED
    is_removed = now is None and not (lost and _is_as_strong(lost, _fresh_in_file(change, file)))
    is_unrun = change.is_switched_off(file.path, unit)
    off = not why and ((test.is_silent and test.decides) or (test.breaks and (is_removed or is_unrun)))
    off = off and not test.is_known
    is_unseen = off and is_unrun and not test.is_silent
    why = why or (_SWITCHED_OFF if is_unseen else _what_is_lost(now, lost, test))
    return ChangedTest(path, line, test.id, how, why, off)


def _lost(change: TaskChange, unit: Unit, *, strict: bool) -> list[Check]:
    """Return what a test asserted and no test asserts any more; what was always true asserted nothing."""
    full, bare = change.checks
    left = Counter(full if strict else bare)
    lost = []
    for one in (one for one in unit.checks if one.strength > CheckStrength.VOID):
        key = one.text if strict else one.bare
        if not left[key]:
            known = (other for other in left if left[other])
            key = next((other for other in known if has_grown(key, other) or only_waits(key, other)), key)
        if left[key]:
            left[key] -= 1
        else:
            lost.append(one)
    return lost


def _find_words(
    change: TaskChange, file: TestFile, unit: Unit, now: Unit | None, lost: Sequence[Check], test: OldTest
) -> str:
    """Return the words of the task that ask for this change, quoted; empty: none do."""
    said = change.said
    own = {unit.name, file.path, file.path.rpartition("/")[2]}
    subjects = _subjects(change, lost or unit.checks)
    about = subjects | {unit.name}
    related = said.names(file.path) or any(said.speaks_of(one) for one in about)
    general = related or not any(said.names(one) for one in change.known)
    if test.is_silent or (now is not None and change.is_idle(unit.name)):
        found = said.find_request(SKIP, {unit.name}, general=False) or said.find_limit(unit.name)
        return quote(found) if found else ""
    if now is None:
        found = said.find_request(REMOVE, {unit.name}, general=False) or said.find_removal(
            subjects & change.gone
        )
        found = found or (subjects & change.gone and said.find_request(REMOVE, own, general=general)) or ""
        if not found and _is_as_strong(lost, _fresh_in_file(change, file)):
            found = said.find_request(REWRITE, own - {unit.name}, general=False)
        return quote(found) if found else ""
    if not test.contradicts and (why := _prepares(change, lost, now)):
        return why
    fresh = _fresh(unit.checks, now.checks)
    if not _is_as_strong(lost, fresh):
        return ""
    if found := said.find_request(ALTER, own, general=general):
        return quote(found)
    pairs = _pairs(lost, fresh)
    if test.was_red or said.forbids:
        return ""
    if test.decides and change.named:
        return quote(change.named)
    if pairs is None:
        return ""
    values = {value for old, new in pairs for value in new.values - old.values}
    past = {value for old, new in pairs for value in old.values - new.values}
    found = said.find_values(past, values, subjects) or said.find_shift(subjects)
    found = found or said.find_product_values(change.fresh_values, about)
    return quote(found) if found else ""


def _prepares(change: TaskChange, lost: Sequence[Check], now: Unit) -> str:
    """Return the words that name all that is done more than before the same assertions; empty: none do."""
    called: set[str] = set()
    for one in lost:
        same = [other.setup.splitlines() for other in now.checks if other.bare == one.bare]
        more = next((extra for lines in same if (extra := _added(one.setup.splitlines(), lines))), None)
        if more is None or any(not _CALL.fullmatch(line) for line in more):
            return ""
        called.update(name for line in more for name in _CALLED.findall(line))
    fresh = called - {name for text in change.code_before.values() for name in _NAME.findall(text)}
    if not lost or not fresh or not called <= change.known:
        return ""
    found = [next((one for one in change.said.sentences if _says_word(one, name)), "") for name in fresh]
    return quote(found[0]) if all(found) else ""


def _added(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return the lines that are new among others that stay as they are; none if one is missing."""
    left = list(new)
    for line in old:
        if line not in left:
            return []
        left.remove(line)
    return left


def _fresh_in_file(change: TaskChange, file: TestFile) -> list[Check]:
    """Return what the new version of a file asserts that its old one did not."""
    now = change.new.get(file.path)
    old, new = [[check for unit in one.units for check in unit.checks] if one else [] for one in (file, now)]
    return _fresh(old, new)


def _fresh(old: Iterable[Check], new: Iterable[Check]) -> list[Check]:
    left = Counter(one.bare for one in old)
    fresh = []
    for one in new:
        if left[one.bare]:
            left[one.bare] -= 1
        else:
            fresh.append(one)
    return fresh


def _subjects(change: TaskChange, checks: Iterable[Check]) -> set[str]:
    """Return the names of the product that checks are about."""
    back = {new: old for old, new in change.renames.names.items()}
    names = {name for one in checks for name in one.names}
    names |= {back[name] for name in names if name in back}
    return names & change.known


def _is_as_strong(lost: Sequence[Check], fresh: Sequence[Check]) -> bool:
    before = sorted((one.strength for one in lost), reverse=True)
    after = sorted((one.strength for one in fresh), reverse=True)
    return len(after) >= len(before) and all(now >= was for was, now in zip(before, after, strict=False))


def _pairs(lost: Sequence[Check], fresh: Sequence[Check]) -> list[tuple[Check, Check]] | None:
    """Return what was expected with what is expected now; None if more than expected values changed."""
    left = list(fresh)
    pairs = []
    for one in lost:
        match = next((new for new in left if _is_like(one, new)), None)
        if match is None:
            return None
        left.remove(match)
        pairs.append((one, match))
    return pairs


def _is_like(old: Check, new: Check) -> bool:
    """Return whether two checks differ in what they expect only."""
    return (old.shape, old.setup) == (new.shape, new.setup) and new.strength >= old.strength


def _imports_are_fine(change: TaskChange, file: TestFile) -> bool:
    """Return whether the tests of a file import what they did before, or the product."""
    if file.path.endswith(".py"):
        return True  # their normal form has what names stand for
    old = {
        name for unit in file.units if not unit.name for one in unit.checks for name in one.names | one.values
    }
    places = {re.sub(r"\.\w+$", "", path) for path in change.code_after}
    allowed = old | change.known | places | _IMPORT_WORDS
    for one in change.new.values():
        lines = [check for unit in one.units if not unit.name for check in unit.checks]
        is_near = one.path not in change.before or one.path == file.path
        if is_near and any(not _is_known(change, (check.names | check.values) - allowed) for check in lines):
            return False
    return True


def _is_known(change: TaskChange, imported: Iterable[str]) -> bool:
    """Return whether the task names all new imports, and none of it is a file."""
    return all(not one.startswith((".", "/")) and change.said.names(one) for one in imported)


def _place(change: TaskChange, file: TestFile, unit: Unit) -> tuple[str, int]:
    """Return where to look: the first line of a test that is new, or where it was."""
    now, found = change.find(file.path, unit.name)
    if now is not None and found is not None:
        return now.path, found.line + _first_change(_lines_of(file, unit), _lines_of(now, found))
    return file.path, (unit.line if file.path not in change.after else _nearest(change, file, unit))


def _nearest(change: TaskChange, file: TestFile, unit: Unit) -> int:
    """Return where a removed test was, in the lines of the file as it is now."""
    old, new = file.text.splitlines(), change.after[file.path].splitlines()
    for _, first, last, start, _ in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if first <= unit.line - 1 < last:
            return max(1, min(start + 1, len(new)))
    return unit.line


def _first_change(old: Sequence[str], new: Sequence[str]) -> int:
    for at, (was, now) in enumerate(zip(old, new, strict=False)):
        if was != now:
            return at
    return min(len(old), len(new)) if len(old) != len(new) else 0


def _what_is_lost(now: Unit | None, lost: Sequence[Check], test: OldTest) -> str:
    asks = "nothing in the task asks for that."
    if test.is_silent:
        return f"It is skipped now; {asks}"
    if now is None:
        return f"It was removed, and no other test asserts the same; {asks}"
    if test.contradicts and now is not None and not lost:
        return f"Its old version fails with the new code, although it reads the same; {asks}"
    if lost:
        was = lost[0].bare.replace("import ", "")
        return f"It does not assert this any more: {was[:160]}; {asks}"
    return f"What it uses was changed; {asks}"


def _settle_support(change: TaskChange, tests: Sequence[OldTest]) -> Iterable[ChangedTest]:
    """Settle changes of what tests use: data, helpers, settings; or of files that cannot be read."""
    own = {test.file for test in tests} - change.code_before.keys()
    added = [
        path for path in change.after if not (has_tests(change.new.get(path)) or path in change.code_after)
    ]
    blamed = [path for path in change.before if path in own] or change.support
    inner = [test for test in tests if test.file in change.code_before]
    if len(inner) == len(tests):
        blamed, added = [], []
    for path in blamed or added:
        old, new = change.before.get(path, ""), change.after.get(path)
        line = _first_change(old.splitlines(), (new or "").splitlines()) + 1
        ids = [test.id for test in tests if test.file in (path, "")] or [tests[0].id]
        how, why = _settle_file(change, path, old, new)
        yield ChangedTest(path, line if new is not None else 0, ids[0], how, why)
    for test in inner if blamed or added else tests:
        names = set(_NAME.findall(test.id.partition("[")[0]))
        asked = change.said.find_removal(names & change.gone) or change.said.find_shift(names & change.known)
        how = HowSettled.ASKED if asked else HowSettled.UNSETTLED
        why = (
            quote(asked)
            if asked
            else "It passes or runs no more as it was; nothing in the task asks for that."
        )
        yield ChangedTest(test.file or test.id, 0, test.id, how, why)


def settle_inputs(change: TaskChange) -> tuple[ChangedTest, ...]:
    """Settle changes of what an environment is built from; what is asked of one file is of its lock file."""
    found = []
    for path, old in change.before.items():
        how, why = _settle_file(change, path, old, change.after.get(path))
        line = _first_change(old.splitlines(), change.after.get(path, "").splitlines()) + 1
        found.append(ChangedTest(path, line, "", how, why))
    asked = next((one for one in found if one.how is not HowSettled.UNSETTLED), None)
    return tuple(found if asked is None else [replace(one, how=asked.how, why=asked.why) for one in found])


def _settle_file(change: TaskChange, path: str, old: str, new: str | None) -> tuple[HowSettled, str]:
    """Settle the change of a file as a whole."""
    said, name = change.said, path.rpartition("/")[2]
    if new is None and old in change.after.values():
        return HowSettled.MECHANICAL, "It was moved."
    before, after = set(_TOKENS.findall(old)), set(_TOKENS.findall(new or ""))
    renamed = {change.renames.name(one) for one in before}
    if (
        path in change.old
        and new is not None
        and [*_TOKENS.findall(new)] == [change.renames.name(one) for one in _TOKENS.findall(old)]
    ):
        return HowSettled.MECHANICAL, "Only names differ that the product's own change has renamed."
    lost = Counter(map(change.renames.name, _TOKENS.findall(old))) - Counter(_TOKENS.findall(new or ""))
    adds = "" if lost else " add"  # what is to be added to takes nothing away
    verbs = f"{ALTER} write create{adds}" if new is not None else REMOVE
    found = said.find_request(verbs, {path, name}, general=path not in change.old)
    fresh = after - renamed
    if not found and new is not None and fresh and path not in change.old and not said.forbids:
        named = (one for one in said.sentences if all(_says_word(one, word) for word in fresh))
        found = next((one for one in named if not (lost and _ADDS.search(one))), "")
    if found:
        return HowSettled.ASKED, quote(found)
    return (
        HowSettled.UNSETTLED,
        "The tests pass only with its new version; nothing in the task asks for that.",
    )


def _says_word(sentence: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", sentence) is not None
