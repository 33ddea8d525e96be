"""From what a review tool printed to findings, one reader per format.

Every reader takes the text and the repository's root, and raises MalformedOutput when the text is not
what the format promises: a review that cannot be read has failed; it has not found nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Literal

from segue.domain.text import cut_tail
from segue.domain.verdict import Finding, Severity
from segue.reviewers import reading
from segue.reviewers.formats.sarif import parse_sarif
from segue.reviewers.formats.stet import parse_stet
from segue.reviewers.reading import MalformedOutput, inside, objects

__all__ = ["PARSERS", "Format", "MalformedOutput", "exit_code_finding", "parse"]

Format = Literal["sarif", "ruff", "semgrep", "jsonlines", "exit-code", "stet"]
_TAIL_CHARS = 4000


def parse(form: Format, text: str, root: PurePath) -> tuple[Finding, ...]:
    """The findings in the output of a tool."""
    return PARSERS[form](text, root)


def parse_ruff(text: str, root: PurePath) -> tuple[Finding, ...]:
    """`ruff check --output-format json` or `json-lines`; the latter prints nothing when all is well."""
    if not text.strip():
        return ()
    if text.lstrip().startswith("["):
        document = reading.load(text)
        entries = [reading.as_object(entry, "a diagnostic of ruff") for entry in document]
    else:
        entries = reading.load_lines(text)
    return reading.unique([_ruff_finding(entry, root) for entry in entries])


def _ruff_finding(entry: dict[str, Any], root: PurePath) -> Finding:
    return reading.finding(
        reading.relative(reading.text(entry.get("filename")), root),
        inside(entry, "location").get("row"),
        # Builds without a severity report what was asked for: every diagnostic makes ruff fail.
        reading.severity(entry.get("severity"), Severity.ERROR),
        reading.text(entry.get("code")) or "invalid-syntax",
        reading.text(entry.get("message")),
        reading.text(inside(entry, "fix").get("message")),
    )


def parse_semgrep(text: str, root: PurePath) -> tuple[Finding, ...]:
    """`semgrep scan --json`."""
    document = reading.as_object(reading.load(text), "semgrep's output")
    results = objects(document, "results", required=True)
    errors = [error for error in objects(document, "errors") if error.get("level") == "error"]
    if errors and not results:
        why = reading.text(errors[0].get("message") or errors[0].get("long_msg"))
        raise MalformedOutput(f"semgrep could not do its work: {reading.excerpt(why)}")
    shown = [entry for entry in results if inside(entry, "extra").get("is_ignored") is not True]
    return reading.unique([_semgrep_finding(entry, root) for entry in shown])


def _semgrep_finding(entry: dict[str, Any], root: PurePath) -> Finding:
    extra = inside(entry, "extra")
    rule = reading.text(entry.get("check_id"))
    fix = reading.text(extra.get("fix"))
    return reading.finding(
        reading.relative(reading.text(entry.get("path")), root),
        inside(entry, "start").get("line"),
        reading.severity(extra.get("severity")),
        rule,
        reading.text(extra.get("message")) or rule,
        f"Replace it by: {fix}" if fix else "",
    )


def parse_jsonlines(text: str, root: PurePath) -> tuple[Finding, ...]:
    """Our own minimal shape: `{"file", "line", "severity", "rule", "message", "suggestion"}` per line.

    Only `message` is required.
    """
    return reading.unique([_plain_finding(entry, root) for entry in reading.load_lines(text)])


def _plain_finding(entry: dict[str, Any], root: PurePath) -> Finding:
    return reading.finding(
        reading.relative(reading.text(entry.get("file")), root),
        entry.get("line"),
        reading.severity(entry.get("severity")),
        reading.text(entry.get("rule")),
        reading.text(entry.get("message")),
        reading.text(entry.get("suggestion")),
    )


def parse_nothing(text: str, root: PurePath) -> tuple[Finding, ...]:  # noqa: ARG001 - a reader like the others
    """The format `exit-code`: what is printed is for people; see `exit_code_finding`."""
    return ()


def exit_code_finding(program: str, code: int, output: str) -> Finding:
    """The one finding of a tool whose exit code is all it says."""
    tail = reading.text(cut_tail(output.strip(), _TAIL_CHARS))
    message = tail or f"{program} ended with exit code {code} and printed nothing"
    return reading.finding("", None, Severity.ERROR, program, message)


PARSERS: dict[Format, Callable[[str, PurePath], tuple[Finding, ...]]] = {
    "sarif": parse_sarif,
    "ruff": parse_ruff,
    "semgrep": parse_semgrep,
    "jsonlines": parse_jsonlines,
    "stet": parse_stet,
    "exit-code": parse_nothing,
}
