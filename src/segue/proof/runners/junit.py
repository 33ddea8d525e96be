"""JUnit XML, which nearly every runner can write."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from segue.proof.report import CaseResult, Report, TestOutcome, add_case, explain, shorten
from segue.proof.runners.runner import Ended, Runner, Stage
from segue.system.beneath import read_below

_LARGEST = 64 * 1024**2
_ERROR = re.compile(r"^\s*(?:E\s+)?([A-Za-z_.]*(?:Error|Exception|Failed))\b", re.M)
_RUNNER = "JUnit"
_SKIPPED = (".git", "node_modules", ".venv", ".tox", ".nox")


def _arm(stage: Stage) -> Mapping[str, str]:
    """Note which XML files are there, to find later what the command has written."""
    (stage.hooks / f"{stage.token}-junit.json").write_text(json.dumps(_list_files(stage)))
    return {}


def _read(stage: Stage, _ended: Ended) -> Report | None:
    """Return what the command wrote, wherever that is in the tree."""
    before = json.loads((stage.hooks / f"{stage.token}-junit.json").read_text())
    after = _list_files(stage)
    written = [stage.tree / path for path in sorted(after) if before.get(path) != after[path]]
    return read_junit(written, stage, _RUNNER)


def _list_files(stage: Stage) -> dict[str, int]:
    files = {}
    for folder, names, entries in os.walk(stage.tree):
        names[:] = [name for name in names if name not in _SKIPPED]
        for place in (Path(folder, name) for name in entries if name.endswith(".xml")):
            if not place.is_symlink():
                files[str(place.relative_to(stage.tree))] = place.stat().st_mtime_ns
    return files


def read_junit(paths: Iterable[Path], stage: Stage, runner: str) -> Report | None:
    """Return what JUnit files say; None if none can be read."""
    tests: dict[str, CaseResult] = {}
    count = 0
    for path in paths:
        root = _parse(stage, path)
        if root is not None and root.tag in ("testsuites", "testsuite"):
            count += 1
            for case in root.iter("testcase"):
                add_case(tests, _read_case(case, stage))
    return Report(tests, count, runners=(runner,) if tests else ()) if count else None


def _parse(stage: Stage, path: Path) -> ElementTree.Element | None:
    # The check can write there, so anything may be found.
    place = stage.tree if path.is_relative_to(stage.tree) else stage.reports
    data = read_below(place, path, _LARGEST)
    try:
        # Entities can grow without bound; no runner writes them.
        return None if b"<!ENTITY" in data else ElementTree.fromstring(data)  # noqa: S314
    except ElementTree.ParseError:
        return None


def _read_case(case: ElementTree.Element, stage: Stage) -> CaseResult:
    name, owner = case.get("name", ""), case.get("classname", "")
    file = case.get("file", "").removeprefix(f"{stage.root}/") or _find_file(owner or name, stage.tests)
    ident = f"{owner}::{name}" if owner else name
    bad = next((child for child in case if child.tag in ("failure", "error")), None)
    if bad is None:
        is_skipped = case.find("skipped") is not None
        return CaseResult(ident, TestOutcome.SKIPPED if is_skipped else TestOutcome.PASSED, file)
    text = "\n".join(filter(None, (bad.get("message"), bad.text)))
    is_file = "collection failure" in (bad.get("message") or "")
    kind = bad.get("type", "").rpartition(".")[2] or _name_error(text)
    reason = explain(kind, text, (), file)
    ident = file if is_file and file else ident
    return CaseResult(ident, TestOutcome.FAILED, file, reason, shorten(text), whole_file=is_file)


def _name_error(text: str) -> str:
    if "assert" in text.lower():
        return "AssertionError"
    match = _ERROR.search(text)
    return match[1].rpartition(".")[2] if match else ""


def _find_file(owner: str, files: Sequence[str]) -> str:
    """Return the test file that a dotted name such as `tests.test_x.TestY` or `shop.TotalTest` means."""
    dotted = owner.replace("/", ".").partition("$")[0]

    def is_meant(file: str) -> bool:
        stem = file.rpartition(".")[0].replace("/", ".")
        return f"{dotted}.".startswith(f"{stem}.") or stem.endswith(f".{dotted}")

    return max((file for file in files if is_meant(file)), key=len, default="")


JUNIT_FILE = Runner(_RUNNER, lambda _: True, _arm, _read)
"""A command that writes JUnit XML by itself, as Maven and Gradle do, or because an option says so."""
