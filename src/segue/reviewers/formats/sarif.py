"""Reads SARIF 2.1.0, which most linters and scanners write."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

from segue.domain.verdict import Finding, Severity
from segue.reviewers import reading
from segue.reviewers.reading import MalformedOutput, inside, objects

_LEVELS = {
    "error": Severity.ERROR,
    "warning": Severity.WARNING,
    "note": Severity.INFO,
    "none": Severity.NITPICK,
}
_NO_PROBLEM = ("pass", "notApplicable")
_ARGUMENT = re.compile(r"\{(\d{1,3})\}")


def parse_sarif(text: str, root: PurePath) -> tuple[Finding, ...]:
    """The results of all runs; suppressed ones, passed checks and those that are gone are left out."""
    log = reading.as_object(reading.load(text), "the SARIF log")
    found: list[Finding] = []
    for run in objects(log, "runs", required=True):
        results = objects(run, "results")
        if not results:
            _must_have_succeeded(run)
        found += [_finding(result, run, root) for result in results if _counts(result)]
    return reading.unique(found)


def _must_have_succeeded(run: dict[str, Any]) -> None:
    for invocation in objects(run, "invocations"):
        if invocation.get("executionSuccessful") is False:
            notes = objects(invocation, "toolExecutionNotifications")
            why = next((_message(note, {}) for note in notes), "")
            raise MalformedOutput(f"the tool says that it did not succeed: {reading.excerpt(why)}")


def _counts(result: dict[str, Any]) -> bool:
    if result.get("kind") in _NO_PROBLEM or result.get("baselineState") == "absent":
        return False
    suppressions = objects(result, "suppressions")
    rejected = any(item.get("status") in ("underReview", "rejected") for item in suppressions)
    return not suppressions or rejected


def _finding(result: dict[str, Any], run: dict[str, Any], root: PurePath) -> Finding:
    rule = _rule(result, run)
    name = reading.text(result.get("ruleId")) or reading.text(rule.get("id"))
    place = inside(next(iter(objects(result, "locations")), {}), "physicalLocation")
    fix = inside(next(iter(objects(result, "fixes")), {}), "description")
    return reading.finding(
        _file(inside(place, "artifactLocation"), run, root),
        inside(place, "region").get("startLine"),
        _severity(result, rule),
        name,
        _message(result, rule) or name,
        reading.text(fix.get("text")),
    )


def _rule(result: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """Return the tool's description of the rule, found by index or by id."""
    rules = objects(inside(run, "tool", "driver"), "rules")
    reference = inside(result, "rule")
    index = result.get("ruleIndex", reference.get("index"))
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(rules):
        return rules[index]
    name = result.get("ruleId") or reference.get("id")
    return next((rule for rule in rules if name and rule.get("id") == name), {"id": name})


def _severity(result: dict[str, Any], rule: dict[str, Any]) -> Severity:
    level = result.get("level") or inside(rule, "defaultConfiguration").get("level")
    return _LEVELS.get(level, Severity.WARNING) if isinstance(level, str) else Severity.WARNING


def _message(holder: dict[str, Any], rule: dict[str, Any]) -> str:
    message = inside(holder, "message")
    template = message.get("text") or message.get("markdown")
    if not template and isinstance(message.get("id"), str):
        template = inside(rule, "messageStrings", message["id"]).get("text")
    arguments = message.get("arguments")
    values = arguments if isinstance(arguments, list) else []

    def argument(match: re.Match[str]) -> str:
        number = int(match[1])
        return str(values[number]) if number < len(values) else match[0]

    return reading.text(_ARGUMENT.sub(argument, template)) if isinstance(template, str) else ""


def _file(location: dict[str, Any], run: dict[str, Any], root: PurePath) -> str:
    uri = reading.text(location.get("uri"))
    base = location.get("uriBaseId")
    bases = inside(run, "originalUriBaseIds")
    # A base may stand on another base; five steps are more than anybody writes, and end every circle.
    for _ in range(5):
        if ":/" in uri or not isinstance(base, str):
            break
        outer = inside(bases, base)
        uri, base = reading.text(outer.get("uri")) + uri, outer.get("uriBaseId")
    return reading.relative(_path(uri), root)


def _path(uri: str) -> str:
    if uri[:5].lower() == "file:":
        rest = uri[5:]
        uri = "/" + rest[2:].partition("/")[2] if rest.startswith("//") else rest
    return reading.text(unquote(uri, errors="replace")).removeprefix("./")
