"""From what a review tool printed to findings, one reader per format.

Every reader takes the text and the repository's root, and raises MalformedOutput when the text is not
what the format promises: a review that cannot be read has failed; it has not found nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Literal
from urllib.parse import unquote

from segue.domain.text import cut_tail, strip_control
from segue.domain.verdict import Finding, Severity
from segue.reviewers import reading
from segue.reviewers.reading import MalformedOutput, inside, objects

_FINDING = re.compile(
    r"^(?:(?P<id>[0-9a-f]{4,64})  )?(?P<file>\S.*?):(?P<line>\d{1,9})  (?P<grade>\w+)  (?P<message>.*)$"
)
_SUMMARY = re.compile(r"^(?P<count>\d{1,9}) finding(?:\(s\)|s)?(?: at [\d.]+ tokens/sec)?\.$")


def parse_stet(text: str, root: PurePath) -> tuple[Finding, ...]:
    """Return the open findings, each id once."""
    lines = [line for line in strip_control(text).split("\n") if line.strip()]
    if not lines:
        raise MalformedOutput("stet printed nothing")
    read = _json if lines[0].lstrip().startswith("{") else _human
    return reading.unique(read(lines, root))


def _json(lines: list[str], root: PurePath) -> list[Finding]:
    """Read one document, or a stream of events, a line each."""
    text = "\n".join(lines)
    try:
        document = reading.as_object(reading.load(text), "stet's output")
    except MalformedOutput:
        return _stream(reading.load_lines(text), root)
    if "findings" not in document:
        return _stream([document], root)
    # Go writes an empty list that was never filled as null.
    return _open(objects(document, "findings"), root)


def _stream(events: list[dict[str, Any]], root: PurePath) -> list[Finding]:
    if not any(event.get("type") == "done" for event in events):
        raise MalformedOutput("stet's stream ends without its last line, so the review is not complete")
    return _open([inside(event, "data") for event in events if event.get("type") == "finding"], root)


def _open(findings: list[dict[str, Any]], root: PurePath) -> list[Finding]:
    return [_stet_finding(entry, root) for entry in findings if entry.get("dismissed") is not True]


def _stet_finding(entry: dict[str, Any], root: PurePath) -> Finding:
    return reading.finding(
        reading.relative(reading.text(entry.get("file")), root),
        entry.get("line") or inside(entry, "range").get("start"),
        reading.severity(entry.get("severity")),
        reading.text(entry.get("category")),
        reading.text(entry.get("message")),
        reading.text(entry.get("suggestion")),
        reading.text(entry.get("id")),
    )


def _human(lines: list[str], root: PurePath) -> list[Finding]:
    summary = _SUMMARY.match(lines[-1].strip())
    if summary is None:
        raise MalformedOutput(f"stet's last line counts no findings: {reading.excerpt(lines[-1])}")
    entries: list[dict[str, Any]] = []
    for line in lines[:-1]:
        match = _FINDING.match(line.rstrip())
        if match:
            entries.append({**match.groupdict(), "line": int(match["line"]), "severity": match["grade"]})
        elif entries:
            entries[-1]["message"] += "\n" + line  # a message may span several lines
    if len(entries) != int(summary["count"]):
        raise MalformedOutput(f"stet counts {summary['count']} finding(s), but {len(entries)} can be read")
    return _open(entries, root)


_LEVELS = {
    "error": Severity.ERROR,
    "warning": Severity.WARNING,
    "note": Severity.INFO,
    "none": Severity.NITPICK,
}
_NO_PROBLEM = ("pass", "notApplicable")
_ARGUMENT = re.compile(r"\{(\d{1,3})\}")


def parse_sarif(text: str, root: PurePath) -> tuple[Finding, ...]:
    """Return the results of all runs; suppressed ones, passed checks and those that are gone are left out."""
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


__all__ = ["PARSERS", "Format", "MalformedOutput", "exit_code_finding", "parse"]

Format = Literal["sarif", "stet", "exit-code"]
_TAIL_CHARS = 4000


def parse(form: Format, text: str, root: PurePath) -> tuple[Finding, ...]:
    """Return the findings in the output of a tool."""
    return PARSERS[form](text, root)


def parse_nothing(text: str, root: PurePath) -> tuple[Finding, ...]:  # noqa: ARG001 - a reader like the others
    """Return nothing: in the format `exit-code` what is printed is for people; see `exit_code_finding`."""
    return ()


def exit_code_finding(program: str, code: int, output: str) -> Finding:
    """Return the one finding of a tool whose exit code is all it says."""
    tail = reading.text(cut_tail(output.strip(), _TAIL_CHARS))
    message = tail or f"{program} ended with exit code {code} and printed nothing"
    return reading.finding("", None, Severity.ERROR, program, message)


PARSERS: dict[Format, Callable[[str, PurePath], tuple[Finding, ...]]] = {
    "sarif": parse_sarif,
    "stet": parse_stet,
    "exit-code": parse_nothing,
}
