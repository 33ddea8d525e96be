"""Read what review tools print: SARIF, and stet's JSON or text.

A text that is not what the format promises raises MalformedOutput: a review that cannot be read has failed;
it has not found nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import PurePath, PurePosixPath
from typing import Any, Literal
from urllib.parse import unquote

from segue.domain.text import strip_control
from segue.domain.verdict import Finding, Severity

Format = Literal["sarif", "stet", "exit-code"]
_LINE_MAX = 2**31 - 1
_HUMAN = re.compile(
    r"^(?:(?P<id>[0-9a-f]{4,64})  )?(?P<file>\S.*?):(?P<line>\d{1,9})  (?P<severity>\w+)  (?P<message>.*)$"
)
_SUMMARY = re.compile(r"^(?P<count>\d{1,9}) finding(?:\(s\)|s)?(?: at [\d.]+ tokens/sec)?\.$")
_LEVELS = {"note": "info", "none": "nitpick"}
"""SARIF's words where they are not ours."""


class MalformedOutput(Exception):
    """The output is not in the promised format."""


def parse(form: Format, text: str, root: PurePath) -> tuple[Finding, ...]:
    """Return the findings in the output of a tool, each id once; in the format `exit-code` there are none."""
    if form == "exit-code":
        return ()
    findings: dict[str, Finding] = {}
    for finding in (_read_sarif if form == "sarif" else _read_stet)(text, root):
        findings.setdefault(finding.id, finding)
    return tuple(findings.values())


def make_finding(
    file: str, line: Any, severity: Any, rule: Any, message: Any, suggestion: Any = "", ident: Any = ""
) -> Finding:
    """Return a finding that can be stored everywhere; without an id, one is made of what it says."""
    file, severity, rule, message, suggestion, ident = map(
        _text, (file, severity, rule, message, suggestion, ident)
    )
    if not message.strip():
        raise MalformedOutput(f"a finding without a message (file {file!r}, rule {rule!r})")
    is_line = isinstance(line, int) and not isinstance(line, bool) and 0 < line <= _LINE_MAX
    facts = "\0".join((file, str(line), rule, " ".join(message.split())))
    ident = ident or hashlib.sha256(facts.encode()).hexdigest()[:16]
    grade = next((one for one in Severity if one == severity.lower()), Severity.WARNING)
    return Finding(ident, file, line if is_line else None, grade, rule, message, suggestion)


def _read_sarif(text: str, root: PurePath) -> Iterator[Finding]:
    """Yield the results of all runs, without those that are suppressed or passed."""
    log = _load(text)
    if not isinstance(_get(log, "runs"), list):
        raise MalformedOutput(f"no SARIF log: {text[:120]}")
    for run in _list(log, "runs"):
        results = _list(run, "results")
        if not results and any(
            _get(call, "executionSuccessful") is False for call in _list(run, "invocations")
        ):
            raise MalformedOutput("the tool says that it did not succeed")
        rules = {_get(rule, "id"): rule for rule in _list(run, "tool", "driver", "rules")}
        for result in results:
            if _list(result, "suppressions") or _get(result, "kind") in ("pass", "notApplicable"):
                continue
            name = _get(result, "ruleId")
            level = _get(result, "level") or _get(rules.get(name), "defaultConfiguration", "level")
            place = _get(result, "locations", 0, "physicalLocation")
            yield make_finding(
                _relative(_path(_get(place, "artifactLocation", "uri")), root),
                _get(place, "region", "startLine"),
                _LEVELS.get(level, level) if isinstance(level, str) else "",
                name,
                _get(result, "message", "text") or name,
                _get(result, "fixes", 0, "description", "text"),
            )


def _read_stet(text: str, root: PurePath) -> Iterator[Finding]:
    lines = [line for line in strip_control(text).split("\n") if line.strip()]
    if not lines:
        raise MalformedOutput("stet printed nothing")
    if lines[0].lstrip().startswith("{"):
        document = _load("\n".join(lines))
        # Go writes an empty list that was never filled as null.
        if "findings" not in document or not isinstance(document["findings"], list | None):
            raise MalformedOutput(f"stet's output has no findings: {text[:120]}")
        entries = _list(document, "findings")
    else:
        entries = _read_text(lines)
    for entry in entries:
        if _get(entry, "dismissed") is not True:
            yield make_finding(
                _relative(_get(entry, "file"), root),
                _get(entry, "line") or _get(entry, "range", "start"),
                _get(entry, "severity"),
                _get(entry, "category"),
                _get(entry, "message"),
                _get(entry, "suggestion"),
                _get(entry, "id"),
            )


def _read_text(lines: list[str]) -> list[dict[str, Any]]:
    """Return the findings that stet prints for people; a message may span several lines."""
    summary = _SUMMARY.match(lines[-1].strip())
    if summary is None:
        raise MalformedOutput(f"stet's last line counts no findings: {lines[-1][:120]}")
    entries: list[dict[str, Any]] = []
    for line in lines[:-1]:
        if match := _HUMAN.match(line.rstrip()):
            entries.append({**match.groupdict(), "line": int(match["line"])})
        elif entries:
            entries[-1]["message"] += "\n" + line
    if len(entries) != int(summary["count"]):
        raise MalformedOutput(f"stet counts {summary['count']} finding(s), but {len(entries)} can be read")
    return entries


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedOutput(f"no JSON: {error} in {text[:120]}") from None


def _get(value: Any, *names: str | int) -> Any:
    """Return what is at the end of a path of names and places; None if part of it is missing."""
    for name in names:
        if isinstance(name, int):
            value = value[name] if isinstance(value, list) and len(value) > name else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


def _list(value: Any, *names: str) -> list[Any]:
    found = _get(value, *names)
    return found if isinstance(found, list) else []


def _text(value: Any) -> str:
    """Return a string without null characters and half characters; empty if it is none."""
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _relative(path: Any, root: PurePath) -> str:
    """Return the path from the repository's root on, with slashes; one outside stays as it is."""
    path = _text(path)
    try:
        return PurePath(path).relative_to(root).as_posix() if path else ""
    except ValueError:
        return PurePosixPath(path).as_posix()


def _path(uri: Any) -> str:
    uri = _text(uri)
    path = re.sub(r"^//[^/]*", "", uri[5:]) if uri[:5].lower() == "file:" else uri
    return unquote(path, errors="replace").removeprefix("./")
