"""Copy hooks to a stage, and read the JSON reports that they write."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from segue.proof.report import Canary, CaseResult, Report, TestOutcome, add_case, explain, shorten
from segue.proof.runners.runner import Stage
from segue.system.beneath import read_below

_HOOKS = Path(__file__).parent / "hooks"
_LARGEST = 256 * 1024**2


class TestEntry(msgspec.Struct):
    """One test, as a hook writes it down."""

    __test__ = False

    id: str
    file: str
    outcome: TestOutcome
    name: str = ""
    """The exception's name."""
    message: str = ""
    frames: list[str] = []
    whole_file: bool = False


class ReportFile(msgspec.Struct):
    """What a hook writes when its runner has finished."""

    tests: list[TestEntry]
    canary: Canary = Canary.ABSENT
    worker: bool = False
    """Written by a process that works for another one, which has a report of its own."""
    spread: bool = False
    """Its tests ran in such workers."""


def copy_hook(stage: Stage, hook: str, name: str) -> Path:
    """Copy a hook to the stage under another name."""
    target = stage.hooks / name
    target.write_bytes((_HOOKS / hook).read_bytes())
    return target


def place_hook(stage: Stage, hook: str, name: str, extra: Mapping[str, object] | None = None) -> Path:
    """Copy a hook to the stage under another name, with a JSON file that tells it what it needs."""
    target = copy_hook(stage, hook, name)
    reports = stage.reports / target.stem
    reports.mkdir(exist_ok=True)
    known = {"root": str(stage.root), "reports": str(reports), "token": stage.token, **(extra or {})}
    target.with_suffix(".json").write_text(json.dumps(known))
    return target


def fill_hook(stage: Stage, hook: str, name: str, words: Mapping[str, str]) -> Path:
    """Copy a script to the stage, with its words in capitals replaced; it keeps texts for `read_texts`."""
    target = copy_hook(stage, hook, name)
    reports = stage.reports / target.stem
    reports.mkdir(exist_ok=True)
    text = target.read_text()
    for word, value in {**words, "TOKEN": stage.token, "REPORTS": shlex.quote(str(reports))}.items():
        text = text.replace(word, value)
    target.write_text(text)
    target.chmod(0o755)
    return target


def read_texts(stage: Stage, name: str) -> Iterator[str]:
    """Yield what a script of this name (without its ending) kept."""
    for path in sorted((stage.reports / name).glob(f"{stage.token}-*.txt")):
        if data := read_below(stage.reports, path, _LARGEST):
            yield data.decode("utf-8", "replace")


def read_reports(stage: Stage, name: str, runner: str) -> Report | None:
    """Return what the hook of this name (without its ending) wrote; None if it finished no report."""
    paths = sorted((stage.reports / name).glob("*.json"))
    found = [entry for path in paths if (entry := _read(stage, path))]
    owners = [entry for entry in found if not entry.worker]
    if not owners:
        return None
    tests: dict[str, CaseResult] = {}
    for test in (test for entry in found for test in entry.tests):
        add_case(tests, _result(test))
    return Report(tests, len(owners), _canary(found), (runner,) if tests else ())


def _read(stage: Stage, path: Path) -> ReportFile | None:
    # The check can write here, so anything may be found.
    with contextlib.suppress(ValueError, msgspec.DecodeError):
        return msgspec.json.decode(read_below(stage.reports, path, _LARGEST), type=ReportFile)
    return None


def _result(test: TestEntry) -> CaseResult:
    reason = None
    if test.outcome is TestOutcome.FAILED:
        reason = explain(test.name, test.message, test.frames, test.file)
    return CaseResult(test.id, test.outcome, test.file, reason, shorten(test.message), test.whole_file)


def _canary(found: list[ReportFile]) -> Canary:
    seen = [entry.canary for entry in found if entry.worker or entry.spread]
    alone = [entry.canary for entry in found if not entry.worker and not entry.spread and _ran(entry)]
    if Canary.SILENT in (*seen, *alone):
        return Canary.SILENT
    if Canary.ABSENT in alone or (seen and Canary.FAILED not in seen):
        return Canary.ABSENT
    return Canary.FAILED if seen or alone else Canary.ABSENT


def _ran(entry: ReportFile) -> bool:
    return any(not test.whole_file for test in entry.tests)
