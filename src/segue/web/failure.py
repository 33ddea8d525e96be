"""Cuts the words that say why a check failed out of its output: the assertion, and the lines around it."""

from __future__ import annotations

import re

from segue.domain.text import clean

MOST = 24
"""Lines of an excerpt."""

_RAISED = re.compile(r"^E {2,}\S")
"""What pytest writes before each line of a failed assertion."""
_FAILS = re.compile(
    r"assert(?:ion)?\b.*(?:fail|error|panic|left|==|!=)|AssertionError|\bpanicked at|panic:|^\s*(?:●|✕|✗|✖)\s"
    r"|^\s*--- FAIL|^not ok |\bExpected\b.*\b(?:got|but|received|actual)\b|^\s*Expected\b|expected:.*but was"
    r"|\b\w*(?:Error|Exception)\b:|\berror(?:\[\w+\])?:|^\S+:\d+(?::\d+)?:\s|\bFAIL(?:ED|URE)?\b",
    0,
)
_BEFORE, _AFTER = 4, 12


def find_failure(output: str) -> str:
    """Return the lines that say what failed first; the end of the output if no line does."""
    lines = [line.rstrip() for line in clean(output).splitlines()]
    raised = [number for number, line in enumerate(lines) if _RAISED.match(line)]
    if raised:
        first = raised[0]
        last = next((n for n in range(first, len(lines)) if not lines[n].startswith("E")), len(lines))
        end = next((n + 1 for n in range(last, min(last + 3, len(lines))) if _is_place(lines[n])), last)
        return _join(lines[_find_start(lines, first) : end])
    named = next((number for number, line in enumerate(lines) if _FAILS.search(line)), None)
    if named is None:
        return _join([line for line in lines if line][-_AFTER:])
    return _join(lines[max(0, named - _BEFORE) : named + _AFTER])


def _find_start(lines: list[str], first: int) -> int:
    """Return where the code above a failed assertion begins: after an empty line or a rule."""
    start = first
    while start > max(0, first - _AFTER) and lines[start - 1] and not lines[start - 1].startswith(("_", "=")):
        start -= 1
    return start


def _is_place(line: str) -> bool:
    return ": " in line and line.split(":")[1:2] != [""] and line.split(":")[1].isdecimal()


def _join(lines: list[str]) -> str:
    return "\n".join(lines[:MOST]).strip("\n")
