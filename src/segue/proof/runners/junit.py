"""JUnit XML, which nearly every runner can write."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from segue.proof.report import CaseResult, Report, TestOutcome, add_case, explain, shorten
from segue.proof.runners.runner import Ended, Runner, Stage
from segue.system.beneath import Beneath, read_below

_OPTION = re.compile(
    r"--?(?:junit-?xml|junit-?file|junitfile|output-?junit|log-junit|xunit-?file)(?:=(.+))?$", re.I
)
_LARGEST = 64 * 1024**2
_NAME = re.compile(r"^\s*(?:E\s+)?([A-Za-z_.]*(?:Error|Exception|Failed))\b", re.M)
_RUNNER = "JUnit"


def _arm(stage: Stage) -> Mapping[str, str]:
    """Remove a report of an earlier run, and note which files are there."""
    with Beneath(stage.tree) as tree:
        for path in _inside(stage):
            tree.delete(str(path.relative_to(stage.tree)))
    note_written(stage, "junit", ".xml")
    return {}


def _read(stage: Stage, ended: Ended) -> Report | None:  # noqa: ARG001 - the command wrote it all
    """Return what the command wrote, wherever that is."""
    return read_junit(dict.fromkeys((*_inside(stage), *find_written(stage, "junit"))), stage, _RUNNER)


def note_written(stage: Stage, name: str, ending: str) -> None:
    """Note the files with this ending, to find later what the command has written."""
    known = {"ending": ending, "files": _list_files(stage, ending)}
    (stage.hooks / f"{stage.token}-{name}.json").write_text(json.dumps(known))


def find_written(stage: Stage, name: str) -> list[Path]:
    """Return the files that are new, or not as they were noted."""
    known = json.loads((stage.hooks / f"{stage.token}-{name}.json").read_text())
    now = _list_files(stage, known["ending"])
    return [stage.tree / path for path in sorted(now) if known["files"].get(path) != now[path]]


def _list_files(stage: Stage, ending: str) -> dict[str, int]:
    found = {}
    for folder, names, files in os.walk(stage.tree):
        names[:] = [name for name in names if name not in (".git", "node_modules", ".venv", ".tox", ".nox")]
        for place in (Path(folder, file) for file in files if file.endswith(ending)):
            if not place.is_symlink():
                found[str(place.relative_to(stage.tree))] = place.stat().st_mtime_ns
    return found


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
        root = parse_xml(stage, path)
        if root is None or root.tag not in ("testsuites", "testsuite"):
            continue
        count += 1
        for case in _cases(root, stage):
            add_case(tests, case)
    return Report(tests, count, runners=(runner,) if tests else ()) if count else None


def parse_xml(stage: Stage, path: Path) -> ElementTree.Element | None:
    """Return a file that the check wrote; None if it cannot be read."""
    # Anything may be found there.
    place = stage.tree if path.is_relative_to(stage.tree) else stage.reports
    data = read_below(place, path, _LARGEST)
    try:
        # Entities can grow without bound; no runner writes them.
        return None if b"<!" in data[:1000] and b"<!ENTITY" in data else ElementTree.fromstring(data)  # noqa: S314
    except ElementTree.ParseError:
        return None


def _cases(root: ElementTree.Element, stage: Stage) -> Iterator[CaseResult]:
    for case in root.iter("testcase"):
        name, owner = case.get("name", ""), case.get("classname", "")
        file = case.get("file", "").removeprefix(f"{stage.root}/") or _file_of(owner or name, stage.tests)
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
    """Return the test file that a dotted name such as `tests.test_x.TestY` or `shop.TotalTest` means."""
    dotted = owner.replace("/", ".").partition("$")[0]
    best = ""
    for file in files:
        stem = file.rpartition(".")[0].replace("/", ".")
        is_within = f"{dotted}.".startswith(f"{stem}.") or stem.endswith(f".{dotted}")
        if is_within and len(file) > len(best):
            best = file
    return best


JUNIT_FILE = Runner(_RUNNER, lambda _: True, _arm, _read)
"""A command that writes JUnit XML by itself, as Maven and Gradle do, or because an option says so."""
