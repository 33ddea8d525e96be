"""Repeat a decisive run as the user would start it, and compare what can be seen of both from outside."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

from msgspec import Struct

from segue.proof.report import TestOutcome
from segue.proof.runs import Observed

LONG = 30.0
"""Seconds: a command that takes longer is repeated with its deciding tests only."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_OTHER_COUNTS = re.compile(r"^\s*(?:Test (?:Suites|Files)|Snapshots|. suites)\b.*$", re.M)
_PASSED = re.compile(r"\b(\d+) pass(?:ed|ing)\b|\bpass (\d+)\b|^Ran (\d+) tests? in |^(ok)\s+\S+\s", re.M)
_OF_THESE_FAILED = re.compile(r"^FAILED \(|\b(?:failures|errors|skipped)=(\d+)", re.M)
_MORE_TRIES = 2

Try = Callable[[bool], Awaitable[Observed]]
"""Runs a command again: watched, or in the ordinary way."""


class Comparison(Struct, frozen=True):
    """What an ordinary run says about a watched one."""

    refutes: str = ""
    """What is different every time, although it is not for the code before the task."""
    doubt: str = ""
    """Why it says nothing."""
    seen: Observed | None = None
    """The ordinary run that differs."""


def count_passed(output: str) -> int | None:
    """Return how many tests passed (packages, in Go) by the runners' last words; None: there are none."""
    text = _OTHER_COUNTS.sub("", _COLOURS.sub("", output))
    found = [next(part for part in groups if part) for groups in _PASSED.findall(text)]
    if not found:
        return None
    failed = sum(int(number) for number in _OF_THESE_FAILED.findall(text) if number) if "Ran " in text else 0
    return sum(1 if part == "ok" else int(part) for part in found) - failed


def contradiction(base: Observed, now: Observed) -> str:
    """Return how a report contradicts what the command printed; both said the same on the base."""
    if base.report is None or now.report is None or base.report.runners != now.report.runners:
        return ""
    if "go test" in base.report.runners:  # it names packages
        return ""
    before = len(base.report.ids(TestOutcome.PASSED))
    if not before or count_passed(base.output) != before:
        return ""
    reported, printed = len(now.report.ids(TestOutcome.PASSED)), count_passed(now.output) or 0
    if printed >= reported:
        return ""
    return f"The report names {reported} tests that passed, the output of the command {printed}."


def find_difference(watched: Observed, ordinary: Observed) -> str:
    """Return what an ordinary run shows otherwise than a watched one; empty: nothing."""
    if ordinary.exit_code is None and watched.exit_code is not None:
        return "it takes too long"
    if ordinary.changed:
        return f"its own tests are rewritten ({', '.join(ordinary.changed[:5])})"
    if (ordinary.exit_code == 0) is not (watched.exit_code == 0):
        return f"it ends with exit code {ordinary.exit_code}"
    before, now = count_passed(watched.output), count_passed(ordinary.output) or 0
    if before is not None and now < before:
        return f"{now} of {before} tests pass"
    return ""


async def compare(watched: Observed, ordinary: Observed, again: Try, base: Try | None) -> Comparison:
    """Find out what a difference comes from: chance, our hooks, or a program that looks who runs it."""
    said = find_difference(watched, ordinary)
    if not said:
        return Comparison()
    for _ in range(1 if watched.seconds > LONG else _MORE_TRIES):
        first, second = await again(True), await again(False)
        if find_difference(watched, first) or not find_difference(first, second):
            doubt = f"a repetition in the ordinary way ended otherwise once ({said}), so something is flaky"
            return Comparison(doubt=doubt)
    if base is not None and (difference := find_difference(await base(True), await base(False))):
        doubt = f"it could not be repeated in the ordinary way, nor could the base ({difference})"
        return Comparison(doubt=doubt)
    return Comparison(said, seen=ordinary)


def narrow(argv: Sequence[str], runners: Sequence[str], tests: Sequence[str]) -> tuple[str, ...] | None:
    """Return the command for these tests alone; None: it cannot be told to."""
    words = list(argv)
    if tuple(runners) == ("pytest",) and (at := _find(words, "pytest")) is not None:
        rest = [word for before, word in pairwise(words[at:]) if _is_option(before, word)]
        return (*words[: at + 1], *rest, *tests)
    if tuple(runners) == ("unittest",) and (at := _find(words, "unittest")) is not None:
        return (*words[: at + 1], *tests)
    if tuple(runners) == ("go test",) and words[:2] == ["go", "test"]:
        names = sorted({re.escape(test.rpartition("::")[2].partition("/")[0]) for test in tests})
        return ("go", "test", f"-run=^({'|'.join(names)})$", *words[2:])
    return None


def _is_option(before: str, word: str) -> bool:
    """Return whether a word is an option, or may be the value of one."""
    if word.startswith("-"):
        return True
    return before.startswith("-") and "=" not in before and "/" not in word and not word.endswith(".py")


def _find(words: Sequence[str], name: str) -> int | None:
    return next((at for at, word in enumerate(words) if word.rpartition("/")[2] == name), None)
