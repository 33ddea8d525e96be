"""Readers of tools' output: right about what is there, and never "no findings" for what they cannot read."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any, get_args
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.verdict import Severity
from segue.reviewers.formats import Format, MalformedOutput, exit_code_finding, parse

ROOT = PurePosixPath("/srv/repo")
FORMATS: tuple[Format, ...] = get_args(Format)
READING = [name for name in FORMATS if name != "exit-code"]


def sarif(*results: dict[str, Any], **run: Any) -> str:
    return json.dumps({"version": "2.1.0", "runs": [{"tool": {}, "results": list(results), **run}]})


def result(**fields: Any) -> dict[str, Any]:
    return {"ruleId": "R1", "message": {"text": "Bad"}, **fields}


def located(uri: str, line: int = 3, **more: Any) -> list[dict[str, Any]]:
    return [{"physicalLocation": {"artifactLocation": {"uri": uri, **more}, "region": {"startLine": line}}}]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["findings", "runs", "results", "locations", "message", "text", "extra", "location", "type",
             "data", "file", "line", "severity", "rule", "level", "suppressions", "tool", "driver",
             "rules", "id"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
@given(text=st.text() | json_values.map(json.dumps) | st.lists(json_values.map(json.dumps)).map("\n".join))
def test_no_text_crashes_a_reader(name: Format, text: str) -> None:
    try:
        found = parse(name, text, ROOT)
    except MalformedOutput:
        return
    for finding in found:
        assert finding.message.strip()
        assert finding.line is None or finding.line > 0
        json.dumps(finding.as_json()).encode()


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize(
    "text", ["Segmentation fault", "{", "[1]", "null", "[" * 100_000, "<html>502 Bad Gateway</html>"]
)
def test_what_is_no_report_is_never_taken_for_no_findings(name: Format, text: str) -> None:
    with pytest.raises(MalformedOutput):
        parse(name, text, ROOT)


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("text", ["", "\n", "{}", '{"results": 3, "runs": 3, "findings": 3}'])
def test_a_report_that_is_missing_is_not_an_empty_one(name: Format, text: str) -> None:
    with pytest.raises(MalformedOutput):
        parse(name, text, ROOT)


names = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(
    lambda text: text.strip() and "/" not in text and text not in (".", "..")
)
levels = st.sampled_from(
    [
        ("error", Severity.ERROR),
        ("warning", Severity.WARNING),
        ("note", Severity.INFO),
        ("none", Severity.NITPICK),
        (None, Severity.WARNING),
    ]
)
rows = st.tuples(names, names, st.integers(1, 10**6), levels, names, st.booleans())


@given(st.lists(rows, max_size=6, unique_by=lambda row: row[:3]))
def test_sarif_gives_back_what_was_put_in(rows: list[tuple[Any, ...]]) -> None:
    results, wanted = [], []
    for rule, file, line, (level, severity), message, absolute in rows:
        uri = ("file:///srv/repo/" if absolute else "") + quote(f"src/{file}")
        entry = {"ruleId": rule, "message": {"text": message}, "locations": located(uri, line)}
        results.append(entry | ({"level": level} if level else {}))
        wanted.append((rule, f"src/{file}", line, severity, message))
    found = parse("sarif", sarif(*results), ROOT)
    assert [(f.rule, f.file, f.line, f.severity, f.message) for f in found] == wanted
    assert len({f.id for f in found}) == len(found)


@pytest.mark.parametrize(
    ("location", "file"),
    [
        ({"uri": "a%20b.py"}, "a b.py"),
        ({"uri": "./a.py"}, "a.py"),
        ({"uri": "file:///srv/repo/a.py"}, "a.py"),
        ({"uri": "file:///elsewhere/a.py"}, "/elsewhere/a.py"),
        ({"uri": "a.py", "uriBaseId": "SRC"}, "src/a.py"),
        ({"uri": "a.py", "uriBaseId": "NESTED"}, "src/deep/a.py"),
        ({"uri": "a.py", "uriBaseId": "UNKNOWN"}, "a.py"),
        ({"uri": "a.py", "uriBaseId": "CIRCLE"}, "a.py"),
        ({}, ""),
    ],
)
def test_where_sarif_points_to(location: dict[str, str], file: str) -> None:
    bases = {
        "SRC": {"uri": "file:///srv/repo/src/"},
        "NESTED": {"uri": "deep/", "uriBaseId": "SRC"},
        "CIRCLE": {"uriBaseId": "CIRCLE"},
    }
    places = [{"physicalLocation": {"artifactLocation": location}}]
    found = parse("sarif", sarif(result(locations=places), originalUriBaseIds=bases), ROOT)
    assert found[0].file == file


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({}, 1),
        ({"suppressions": []}, 1),
        ({"suppressions": [{"kind": "inSource"}]}, 0),
        ({"suppressions": [{"kind": "external", "status": "rejected"}]}, 1),
        ({"kind": "pass"}, 0),
        ({"kind": "fail"}, 1),
        ({"baselineState": "absent"}, 0),
    ],
)
def test_which_results_of_sarif_count(fields: dict[str, Any], count: int) -> None:
    assert len(parse("sarif", sarif(result(**fields)), ROOT)) == count


def test_sarif_takes_level_name_and_message_from_the_rule() -> None:
    rules = [
        {"id": "Q", "defaultConfiguration": {"level": "error"}, "messageStrings": {"m": {"text": "No {0}"}}}
    ]
    entry = {"ruleIndex": 0, "message": {"id": "m", "arguments": ["eval"]}}
    found = parse("sarif", sarif(entry, tool={"driver": {"rules": rules}}), ROOT)
    assert (found[0].rule, found[0].severity, found[0].message) == ("Q", Severity.ERROR, "No eval")


def test_a_sarif_run_that_failed_is_a_failure() -> None:
    invocation = {
        "executionSuccessful": False,
        "toolExecutionNotifications": [{"message": {"text": "out of memory"}}],
    }
    with pytest.raises(MalformedOutput, match="out of memory"):
        parse("sarif", sarif(invocations=[invocation]), ROOT)
    assert parse("sarif", sarif(result(), invocations=[invocation]), ROOT)


STET = {"id": "ab" * 32, "file": "calc.py", "line": 4, "severity": "error", "category": "bug", "message": "m"}


def test_stet_in_json_leaves_out_doubles_and_dismissed_ones() -> None:
    other = {**STET, "id": "cd" * 32, "line": None, "range": {"start": 9, "end": 11}, "suggestion": "s"}
    gone = {**STET, "id": "ef" * 32, "dismissed": True}
    text = json.dumps({"findings": [STET, other, STET, gone]})
    first, second = parse("stet", text + "\n", ROOT)
    assert (first.id, first.line, first.rule, first.severity) == ("ab" * 32, 4, "bug", Severity.ERROR)
    assert (second.line, second.suggestion) == (9, "s")
    assert parse("stet", '{"findings":[]}\n', ROOT) == () == parse("stet", '{"findings":null}', ROOT)


def test_stet_as_a_stream_needs_its_end() -> None:
    lines = [{"type": "progress", "msg": "1 hunks to review"}, {"type": "finding", "data": STET}]
    text = "\n".join(map(json.dumps, lines))
    with pytest.raises(MalformedOutput, match="not complete"):
        parse("stet", text, ROOT)
    assert len(parse("stet", text + '\n{"type":"done"}\n', ROOT)) == 1
    assert parse("stet", '{"type":"done"}', ROOT) == ()


def test_stet_for_people() -> None:
    text = (
        "c165c39  src/my file.py:4  \x1b[31mERROR\x1b[0m  first: line\n  goes on\n"
        "calc.py:5  info  without an id\n2 finding(s) at 41.5 tokens/sec.\n"
    )
    first, second = parse("stet", text, ROOT)
    assert (first.id, first.file, first.line) == ("c165c39", "src/my file.py", 4)
    assert first.message == "first: line\n  goes on"
    assert (second.file, second.line, second.severity) == ("calc.py", 5, Severity.INFO)
    assert parse("stet", "0 finding(s).\n", ROOT) == ()


@pytest.mark.parametrize(
    "text", ["2 finding(s).\n", "calc.py:4  ERROR  m\n", "calc.py:4  ERROR  m\n0 finding(s)."]
)
def test_stet_for_people_must_add_up(text: str) -> None:
    with pytest.raises(MalformedOutput):
        parse("stet", text, ROOT)


def test_an_exit_code_makes_one_finding_of_the_end_of_the_output() -> None:
    found = exit_code_finding("make", 2, "a line\n" * 2_000 + "the end\n")
    assert found.message.endswith("the end")
    assert found.message.startswith("a line\n")
    assert 3990 < len(found.message) <= 4000
    assert "exit code 2" in exit_code_finding("make", 2, "").message


def test_texts_can_be_stored_everywhere() -> None:
    (found,) = parse("sarif", sarif(result(message={"text": "a\0b\ud800c"})), ROOT)
    assert "\0" not in found.message
    assert found.message.encode("utf-8")
