"""Reads what stet prints: one line of JSON, JSON lines of `--stream`, or text for people."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

from segue.domain.text import strip_control
from segue.domain.verdict import Finding
from segue.reviewers import reading
from segue.reviewers.reading import MalformedOutput, inside, objects

_FINDING = re.compile(
    r"^(?:(?P<id>[0-9a-f]{4,64})  )?(?P<file>\S.*?):(?P<line>\d{1,9})  (?P<grade>\w+)  (?P<message>.*)$"
)
_SUMMARY = re.compile(r"^(?P<count>\d{1,9}) finding(?:\(s\)|s)?(?: at [\d.]+ tokens/sec)?\.$")


def parse_stet(text: str, root: PurePath) -> tuple[Finding, ...]:
    """The open findings, each id once."""
    lines = [line for line in strip_control(text).split("\n") if line.strip()]
    if not lines:
        raise MalformedOutput("stet printed nothing")
    read = _json if lines[0].lstrip().startswith("{") else _human
    return reading.unique(read(lines, root))


def _json(lines: list[str], root: PurePath) -> list[Finding]:
    """Early builds indented their JSON, so a document that is no single line is tried as a whole first."""
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
    return [_finding(entry, root) for entry in findings if entry.get("dismissed") is not True]


def _finding(entry: dict[str, Any], root: PurePath) -> Finding:
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
