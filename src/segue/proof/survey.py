"""Survey a tree that no agent has worked on yet: is a check green, red, empty, or unable to start?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence

from msgspec import Struct

from segue.domain.proof import BaseCheck, BaseState
from segue.proof.report import Report, TestOutcome
from segue.proof.runs import Observed

_SHOWN = 12
"""Lines at the end of the output that may say what is wrong."""
_TEST_COMMAND = re.compile(
    r"test|spec|tox|nox|jest|mocha|behave|bats|make|just|npm|yarn|pnpm|bun|check|verify|\./"
)
"""What may run tests, judging by its name, once there are some."""
_RUNNER = re.compile(r"pytest|unittest|jest|vitest|mocha|node .*--test\b|\b(?:go|cargo) test\b")
_NO_TESTS = re.compile(r"no test(?: file)?s? (?:ran|found|were found)|no test files", re.I)
_CANNOT_START = re.compile(
    r"not found|no such file|no rule to make|missing script|no module named|cannot find module"
    r"|unrecognized arguments|unknown (?:command|option|script)|while loading conftest",
    re.I,
)
_PYTEST = re.compile(r"^(?:ERROR: |ImportError while loading conftest )", re.M)
_MAKE = re.compile(r"\*\*\* \[.*\] \D* ?12[67]$", re.M)
_MODULE = re.compile(r"No module named '?([\w.]+)'?|Cannot find (?:module|package) '([^']+)'")
_QUOTED = re.compile(r"[`'\"‘]([\w./:@-]+)[`'\"’]")
_FINDING = re.compile(r"\S+:\d+")
"""How a line begins that is about a place in the project."""
_PLAIN = re.compile(
    r"(?:.*/)?(?:\.[^/]*|LICEN[CS]E[^/]*|[^/]*\.(?:md|rst|txt|toml|ya?ml|json|cfg|ini|lock|svg|png))"
)
"""Files that are no program."""


class Obstacle(Struct, frozen=True):
    """Why a command could not start."""

    reason: str
    """In the command's own words."""
    missing: tuple[str, ...] = ()
    """The names of what is missing."""


def conclude(
    argv: Sequence[str], seen: Observed, paths: Collection[str], has_tests: bool, limit: float
) -> BaseCheck:
    """Return what a check that has run on a tree says about it; `has_tests`: the tree has test files."""
    command, report = shlex.join(argv), seen.report or Report()
    failing = tuple(sorted(report.failed))
    obstacle = _find_obstacle_of(argv, seen, paths, has_tests, limit)
    is_young = all(_PLAIN.fullmatch(path) for path in paths)
    by_code = not seen.ok and not failing
    state = BaseState.GREEN if seen.ok and not failing else BaseState.RED
    is_empty = seen.report is not None or _says_empty(command, seen, has_tests)
    if obstacle is None and not seen.tests and is_empty:
        state = BaseState.EMPTY
    elif obstacle is not None:
        may_come = is_young or (not has_tests and _names_absent_file(argv, paths))
        state = BaseState.RED if may_come and seen.exit_code is not None else BaseState.UNREADY
    is_explained = state in (BaseState.GREEN, BaseState.EMPTY) or bool(failing and has_run(seen))
    may_test = _TEST_COMMAND.search(command) is not None and not has_tests
    return BaseCheck(
        command,
        state,
        seen.tests,
        failing,
        _find_red_files(report),
        by_code and state is not BaseState.EMPTY,
        obstacle.reason if obstacle else "",
        obstacle.missing if obstacle else (),
        "" if is_explained else "\n".join(last_lines(seen.output)),
        mute=state is BaseState.GREEN and seen.report is None and not may_test,
        too_long=seen.exit_code is None,
    )


def _says_empty(command: str, seen: Observed, has_tests: bool) -> bool:
    said = any(_NO_TESTS.search(line) for line in last_lines(seen.output))
    return said and not has_tests and _RUNNER.search(command) is not None


def _find_obstacle_of(
    argv: Sequence[str], seen: Observed, paths: Collection[str], has_tests: bool, limit: float
) -> Obstacle | None:
    """Return why the check says nothing; None: it says something."""
    if seen.exit_code is None:
        return Obstacle(f"it took longer than check_timeout = {limit:g} s")
    if has_run(seen):
        return None
    if seen.report is not None and seen.tests:
        return _find_common_cause(seen.report, paths)
    obstacle = find_obstacle(argv, seen)
    if seen.report is not None:
        if not has_tests:
            return None
        words = obstacle.reason if obstacle is not None else "it finds no tests, although there are some"
        return Obstacle(words, lacking(argv, seen.output))
    return None if seen.ok or _says_empty(shlex.join(argv), seen, has_tests) else obstacle


def find_obstacle(argv: Sequence[str], seen: Observed) -> Obstacle | None:
    """Return why a command could not start, as far as its output tells; None if it probably did."""
    if seen.exit_code in (0, None) or has_run(seen):
        return None
    lines = last_lines(seen.output)
    named = [line for line in lines if _CANNOT_START.search(line) and not _FINDING.match(line)]
    if seen.exit_code in (126, 127) or _MAKE.search(seen.output):
        reason = _clean(named[-1] if named else last_line(seen.output))
        return Obstacle(reason or f"exit code {seen.exit_code}", lacking(argv, seen.output))
    if seen.exit_code == 4 and _PYTEST.search(seen.output) and not seen.tests:
        # pytest's own code for a wrong command line, and for a conftest.py that cannot be loaded
        errors = [line for line in lines if re.match(r"E  |.*error:", line)]
        return Obstacle(_clean((errors or lines)[-1]), lacking(argv, seen.output))
    if seen.report is not None or not named:
        return None
    # A script of the project may say of anything that it is missing; a tool names its own words.
    words = _words(argv)
    for line in named:
        if any(word in line for word in words) or _MODULE.search(line):
            return Obstacle(_clean(line), lacking(argv, seen.output))
    return None


def has_run(seen: Observed) -> bool:
    """Return whether a test ran; a file that could not be loaded does not count."""
    return seen.report is not None and any(not case.whole_file for case in seen.report.tests.values())


def last_lines(output: str, most: int = _SHOWN) -> list[str]:
    """Return the last lines of an output that say something."""
    return [line.rstrip() for line in output.splitlines() if line.strip()][-most:]


def last_line(output: str) -> str:
    """Return the last line of an output."""
    return _clean((last_lines(output) or [""])[-1])


def lacking(argv: Sequence[str], output: str) -> tuple[str, ...]:
    """Return what a command may lack: its own words, and names at the end of its output."""
    end = "\n".join(last_lines(output))
    modules = [name for pair in _MODULE.findall(end) for name in pair if name]
    names = re.findall(r"(?:^|[\s:])([^\s:]+): (?:command )?not found", end)
    return tuple(dict.fromkeys((*_words(argv), *modules, *names, *_QUOTED.findall(end))))


def _words(argv: Sequence[str]) -> list[str]:
    """Return the words of a command that may mean something of the project."""
    runners = ("pytest", "unittest", "discover", "python", "python3", "node", "npm", "run")
    return [
        word
        for word in argv[1:]
        if len(word) > 1 and not word.startswith(("-", "/")) and "=" not in word and word not in runners
    ]


def _names_absent_file(argv: Sequence[str], paths: Collection[str]) -> bool:
    """Return whether a command names a file or folder that the project does not have yet."""
    words = [word.partition("::")[0].removeprefix("./").rstrip("/") for word in _words(argv)]
    return any(
        ("/" in word or "." in word)
        and not any(path == word or path.startswith(f"{word}/") for path in paths)
        for word in words
    )


def _find_common_cause(report: Report, paths: Collection[str]) -> Obstacle | None:
    """Return why no test file at all can be loaded, if that is one module that the project does not have."""
    cases = list(report.tests.values())
    if len(cases) < 2:
        return None  # a single file is as likely a specification that waits for its code
    named = [{name.partition(".")[0] for name, _ in _MODULE.findall(case.message)} for case in cases]
    known = {part.removesuffix(".py") for path in paths for part in path.split("/")[:2]}
    foreign = sorted(set.intersection(*named) - known - {""})
    if not foreign:
        return None
    return Obstacle(f"no test file can be loaded: No module named '{foreign[0]}'", tuple(foreign))


def _find_red_files(report: Report) -> tuple[str, ...]:
    red = {case.file or case.id for case in report.tests.values() if case.outcome is TestOutcome.FAILED}
    green = {case.file for case in report.tests.values() if case.outcome is TestOutcome.PASSED}
    return tuple(sorted(red - green))


def _clean(line: str) -> str:
    return re.sub(r"^(?:E|npm (?:error|ERR!))\s+", "", line.strip())[:300]
