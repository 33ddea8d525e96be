"""JUnit XML, which nearly every runner can write."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from segue.proof.report import CaseResult, Report, TestOutcome, add_case, explain, shorten
from segue.proof.runners.runner import Ended, Project, Runner, Stage
from segue.system.beneath import Beneath, read_below

_OPTION = re.compile(
    r"--?(?:junit-?xml|junit-?file|junitfile|output-?junit|log-junit|xunit-?file)(?:=(.+))?$", re.I
)
_LARGEST = 64 * 1024**2
_NAME = re.compile(r"^\s*(?:E\s+)?([A-Za-z_.]*(?:Error|Exception|Failed))\b", re.M)
_RUNNER = "JUnit"


def _applies(project: Project) -> bool:
    """Return whether an option names the file."""
    return bool(_named(project.argv))


def _arm(stage: Stage) -> Mapping[str, str]:
    """Remove a report of an earlier run."""
    with Beneath(stage.tree) as tree:
        for path in _inside(stage):
            tree.delete(str(path.relative_to(stage.tree)))
    return {}


def _read(stage: Stage, ended: Ended) -> Report | None:  # noqa: ARG001 - the command wrote it all
    """Return what the command wrote."""
    return read_junit(_inside(stage), stage, _RUNNER)


def _named(argv: Sequence[str]) -> list[str]:
    found = []
    for word, following in zip(argv, (*argv[1:], ""), strict=True):
        if match := _OPTION.match(word):
            found.append(match[1] or following)
    return [name for name in found if name]


def _inside(stage: Stage) -> list[Path]:
    """Return the named files, where the tree is now; those outside it are lost with the sandbox."""
    inside = []
    for name in _named(stage.argv):
        path = Path(os.path.normpath(stage.root / name))
        if path.is_relative_to(stage.root):
            inside.append(stage.tree / path.relative_to(stage.root))
    return inside


def read_junit(paths: Iterable[Path], stage: Stage, runner: str) -> Report | None:
    """Return what JUnit files say; None if none can be read."""
    tests: dict[str, CaseResult] = {}
    count = 0
    for path in paths:
        root = _parse(stage, path)
        if root is None:
            continue
        count += 1
        for case in _cases(root, stage.tests):
            add_case(tests, case)
    return Report(tests, count, runners=(runner,) if tests else ()) if count else None


def _parse(stage: Stage, path: Path) -> ElementTree.Element | None:
    # The check can write here, so anything may be found.
    place = stage.tree if path.is_relative_to(stage.tree) else stage.reports
    data = read_below(place, path, _LARGEST)
    try:
        # Entities can grow without bound; no runner writes them.
        return None if b"<!" in data[:1000] and b"<!ENTITY" in data else ElementTree.fromstring(data)  # noqa: S314
    except ElementTree.ParseError:
        return None


def _cases(root: ElementTree.Element, files: Sequence[str]) -> Iterator[CaseResult]:
    for case in root.iter("testcase"):
        name, owner = case.get("name", ""), case.get("classname", "")
        file = case.get("file", "") or _file_of(owner or name, files)
        ident = f"{owner}::{name}" if owner else name
        bad = next((child for child in case if child.tag in ("failure", "error")), None)
        if bad is not None:
            text = "\n".join(filter(None, (bad.get("message"), bad.text)))
            whole = "collection failure" in (bad.get("message") or "")
            yield CaseResult(
                file if whole and file else ident,
                TestOutcome.FAILED,
                file,
                explain(bad.get("type", "").rpartition(".")[2] or _error_in(text), text, (), file),
                shorten(text),
                whole_file=whole,
            )
        elif case.find("skipped") is not None:
            yield CaseResult(ident, TestOutcome.SKIPPED, file)
        else:
            yield CaseResult(ident, TestOutcome.PASSED, file)


def _error_in(text: str) -> str:
    if "assert" in text.lower():
        return "AssertionError"
    match = _NAME.search(text)
    return match[1].rpartition(".")[2] if match else ""


def _file_of(owner: str, files: Sequence[str]) -> str:
    """Return the test file that a dotted name such as `tests.test_x.TestY` means."""
    dotted = owner.replace("/", ".")
    best = ""
    for file in files:
        stem = file.rpartition(".")[0].replace("/", ".")
        if (dotted == stem or dotted.startswith(f"{stem}.")) and len(file) > len(best):
            best = file
    return best


JUNIT_FILE = Runner(_RUNNER, _applies, _arm, _read)
"""A command that writes JUnit XML by itself, because an option says so."""
