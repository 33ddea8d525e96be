"""Surveys a tree that nobody has worked on yet: is a check green, red, empty, or unable to start?"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.proof import BaseCheck, BaseState
from segue.proof.obstacles import (
    Obstacle,
    absent_paths,
    find_obstacle,
    has_run,
    is_same,
    lacking,
    last_line,
    last_lines,
)
from segue.proof.report import CaseResult, Report, TestOutcome
from segue.proof.runs import Observed

_TESTS = {
    ".py": re.compile(r"^\s*(?:async )?def test|^class \w*(?:Test|Case)", re.M),
    ".js": re.compile(r"\b(?:test|it|describe)\s*(?:\.\w+)?\("),
    ".go": re.compile(r"^func Test", re.M),
    ".rs": re.compile(r"#\[(?:\w+::)?test\]"),
}
_LIKE_JS = (".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts")
_RUNNERS = (
    (re.compile(r"pytest|unittest|python|tox|nox"), ".py"),
    (re.compile(r"npm|npx|yarn|pnpm|bun|node|jest|vitest|mocha"), ".js"),
    (re.compile(r"\bgo\b"), ".go"),
    (re.compile(r"cargo"), ".rs"),
)
_TEST_RUNNER = re.compile(r"pytest|unittest|jest|vitest|mocha|node .*--test\b|\b(?:go|cargo) test\b")
_NONE_FOUND = re.compile(r"no test(?: file)?s? (?:ran|found|were found)|no test files", re.IGNORECASE)
"""What test runners say where nobody has written a test yet."""
_MAY_TEST = re.compile(
    r"test|spec|tox|nox|jest|mocha|behave|bats|make|just|npm|yarn|pnpm|bun|check|verify|\./"
)
"""What may run tests, judging by its name, once there are some."""
_MOST_READ = 60
"""Test files that are read to find out whether there are tests."""
_PLAIN = re.compile(
    r"(?:.*/)?(?:\.[^/]*|LICEN[CS]E[^/]*|[^/]*\.(?:md|rst|txt|toml|ya?ml|json|cfg|ini|lock|svg|png))"
)
"""Files that are no program."""


class Surroundings(Struct, frozen=True):
    """What a check finds around it."""

    argv: tuple[str, ...]
    paths: frozenset[str]
    """The files of the tree."""
    tests: Sequence[str]
    """The test files among them."""
    read: Callable[[str], Awaitable[str]]
    run_alone: Callable[[], Awaitable[Observed]]
    """Runs the command in an empty folder."""
    limit: float
    """Seconds that it may take."""

    @property
    def is_young(self) -> bool:
        """Whether there is no program yet, only what people write before they begin."""
        return all(_PLAIN.fullmatch(path) for path in self.paths)

    async def has_tests(self) -> bool:
        """Return whether there are tests that the command could run."""
        line = shlex.join(self.argv)
        wanted = {suffix for pattern, suffix in _RUNNERS if pattern.search(line)} or set(_TESTS)
        for path in self.tests[:_MOST_READ]:
            ending = f".{path.rpartition('.')[2]}"
            suffix = ".js" if ending in _LIKE_JS else ending
            if suffix in wanted and _TESTS[suffix].search(await self.read(path)):
                return True
        return False


async def conclude(seen: Observed, around: Surroundings) -> BaseCheck:
    """Return what a check that has run on a tree says about it."""
    command = shlex.join(around.argv)
    report = seen.report or Report()
    failing, files = tuple(sorted(report.failed)), _red_files(report)
    by_code = seen.exit_code != 0 and not failing
    too_long = seen.exit_code is None
    found = BaseCheck(command, BaseState.GREEN, seen.tests, failing, files, by_code, too_long=too_long)
    if await _finds_no_tests(seen, around):
        return _change(found, BaseState.EMPTY)
    output = "" if failing and has_run(seen) else "\n".join(last_lines(seen.output))
    obstacle, is_later = await _obstacle(seen, around)
    if obstacle is not None:
        state = BaseState.RED if is_later else BaseState.UNREADY
        return _change(found, state, output, obstacle)
    if seen.exit_code == 0 and not failing:
        if seen.report is not None:
            return _change(found, BaseState.GREEN if seen.tests else BaseState.EMPTY)
        may_test = _MAY_TEST.search(command) is not None and not await around.has_tests()
        return _change(replace(found, mute=not may_test), BaseState.GREEN)
    if seen.report is not None and not seen.tests:
        return _change(found, BaseState.EMPTY)
    return _change(found, BaseState.RED, output)


def _change(
    found: BaseCheck, state: BaseState, output: str = "", obstacle: Obstacle | None = None
) -> BaseCheck:
    reason, missing = (obstacle.reason, obstacle.missing) if obstacle is not None else ("", ())
    return replace(found, state=state, output=output, reason=reason, missing=missing)


async def _finds_no_tests(seen: Observed, around: Surroundings) -> bool:
    """Return whether a test runner says that there are no tests, and there are none."""
    is_runner = seen.report is None and _TEST_RUNNER.search(shlex.join(around.argv)) is not None
    said = is_runner and any(_NONE_FOUND.search(line) for line in last_lines(seen.output))
    return said and not await around.has_tests()


async def _obstacle(seen: Observed, around: Surroundings) -> tuple[Obstacle | None, bool]:
    """Return why the check cannot start, and whether the project may still get what it lacks."""
    if seen.exit_code is None:
        return Obstacle(f"it took longer than check_timeout = {around.limit:g} s"), False
    if has_run(seen):
        return None, False
    if seen.report is not None and not _loaded_nothing(seen.report, around):
        unloaded = _find_common_cause(seen.report, around)
        return unloaded, False
    lacks = _missing_script(around.argv, await around.read("package.json"))
    obstacle = find_obstacle(around.argv, seen, around.paths) or (
        Obstacle(lacks, around.argv[1:]) if lacks else None
    )
    if seen.report is not None:
        if not await around.has_tests():
            return None, False
        words = obstacle.reason if obstacle is not None else "it finds no tests, although there are some"
        return Obstacle(words, lacking(around.argv, seen.output)), False
    if seen.exit_code == 0:
        return None, False
    if obstacle is None and not around.argv[0].startswith("./"):
        alone = await around.run_alone()
        if is_same(seen, alone):
            obstacle = Obstacle(last_line(seen.output), lacking(around.argv, seen.output))
    return obstacle, obstacle is not None and await _may_come(obstacle, seen.output, around)


async def _may_come(obstacle: Obstacle, output: str, around: Surroundings) -> bool:
    """Return whether what is missing is a part of the project that nobody has written yet."""
    if around.is_young:
        return True
    if _TEST_RUNNER.search(shlex.join(around.argv)) and await around.has_tests():
        return False  # there are tests, but not where the command looks for them
    inside = [name for name in obstacle.missing if "/" in name and not name.startswith("/")]
    absent = [path for path in absent_paths(around.argv, around.paths) if path in output]
    return bool(inside or absent)


def _loaded_nothing(report: Report, around: Surroundings) -> bool:
    """Return whether no test file of the project was even found."""
    return not any(case.file in around.paths or case.id in around.paths for case in report.tests.values())


def _find_common_cause(report: Report, around: Surroundings) -> Obstacle | None:
    """Return why no test file at all can be loaded, if that is one thing that tests do not wait for."""
    cases = list(report.tests.values())
    if len(cases) < 2:
        return None  # a single file is as likely a specification that waits for its code
    modules = set.intersection(*(_modules(case) for case in cases))
    known = {path.partition("/")[0].removesuffix(".py") for path in around.paths}
    known |= {path.split("/")[1].removesuffix(".py") for path in around.paths if path.startswith("src/")}
    foreign = sorted(modules - known)
    if foreign:
        return Obstacle(f"no test file can be loaded: No module named '{foreign[0]}'", tuple(foreign))
    causes = {last_line(case.message) for case in cases}
    right = any(case.reason is not None and case.reason.is_right for case in cases)
    if right or len(causes) > 1:
        return None
    return Obstacle(f"no test file can be loaded: {causes.pop()}")


def _modules(case: CaseResult) -> set[str]:
    return {name.partition(".")[0] for name in re.findall(r"No module named '([\w.]+)'", case.message)}


def _missing_script(argv: Sequence[str], package: str) -> str:
    """Return in words that npm has no such script; it says nothing itself when it is told to be silent."""
    words = [word for word in argv[1:] if not word.startswith("-")]
    if argv[0].rpartition("/")[2] not in ("npm", "pnpm") or not words or not package:
        return ""
    name = words[1] if words[0] in ("run", "run-script") and len(words) > 1 else words[0]
    if name == words[0] and name not in ("test", "start"):
        return ""
    try:
        scripts = json.loads(package).get("scripts", {})
    except (ValueError, AttributeError):
        return "package.json cannot be read"
    return "" if name in scripts else f'package.json has no script "{name}"'


def _red_files(report: Report) -> tuple[str, ...]:
    red = {case.file or case.id for case in report.tests.values() if case.outcome is TestOutcome.FAILED}
    green = {case.file for case in report.tests.values() if case.outcome is TestOutcome.PASSED}
    return tuple(sorted(red - green))
