"""The socket for test runners: how to get a report out of a command without changing it.

Below it, what runners share: hooks that are copied to a stage, and the JSON reports that these write.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from segue.proof.report import Canary, CaseResult, Report, TestOutcome, add_case, explain, shorten
from segue.system.beneath import read_below

_HOOKS = Path(__file__).parent / "hooks"
_LARGEST = 256 * 1024**2


class Project(Struct, frozen=True):
    """What is known about a check before it runs."""

    argv: tuple[str, ...]
    paths: Collection[str]
    """The files of the tree, from the root of the repository."""


class Purpose(Struct, frozen=True):
    """What a run is for."""

    wanted: tuple[str, ...] = ()
    """The only tests that matter, by id or by file, which run alone where a runner can; empty: all do."""
    brief: bool = False
    """Whether it may end with the first of these that fails."""
    blind: bool = False
    """Whether the product does not find its tests, nor what the runner says; wanted ones run in reverse."""


WHOLE = Purpose()


class Stage(Struct, frozen=True):
    """The places of one run of a check."""

    argv: tuple[str, ...]
    root: Path
    """Where the check sees the tree: at the repository's own path, unless it runs on a copy."""
    tree: Path
    """Where the tree is now. A runner may change its copy of the tests, such as append a canary."""
    hooks: Path
    """A folder for what the runner is made to load; the check sees it under this path and cannot write it."""
    reports: Path
    """A folder that the check can write, under this path too."""
    token: str
    """A random word for names of hooks, reports and canaries: letters and digits, begins with a letter."""
    tests: tuple[str, ...]
    """The test files of the tree, from its root."""
    purpose: Purpose = WHOLE
    is_closed: bool = False
    """Whether what runs there reaches neither the user's files nor a network."""

    def relative(self, folder: str) -> str:
        """Return a folder from the root of the repository; empty for the root itself, and for others."""
        path = Path(folder)
        return path.relative_to(self.root).as_posix() if self.root in path.parents else ""


class Ended(Struct, frozen=True):
    """How a run of a check ended."""

    exit_code: int | None
    """None: it took too long."""
    out: str
    err: str
    changed: tuple[str, ...] = ()
    """Tests and control files that it has rewritten, where nothing could keep it from that."""
    opened: tuple[str, ...] | None = None
    """Files of the tree that it has opened; None: not known."""


class Runner(Struct, frozen=True):
    """Gets a report out of one test runner."""

    name: str
    applies: Callable[[Project], bool]
    """Returns whether the command may start this runner: True rather than False when in doubt.

    It must do no harm to commands that do not start it."""
    arm: Callable[[Stage], Mapping[str, str]]
    """Writes hooks and canaries to the stage; returns the variables that make the runner load them.

    Variables of several runners are joined: `PYTHONPATH` by colons, others by spaces."""
    read: Callable[[Stage, Ended], Report | None]
    """Returns what the runner reported; None if it did not start or did not finish its report.

    A failed canary is not in `tests`. The result must not depend on the exit code."""
    clean: Callable[[str], str] = str
    """Returns the output as people want to read it, without traces of hooks and canaries."""


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
    equal: list[str] = []
    """Classes of the product that are equal to everything."""
    apart: list[str] = []
    """Calls that the product answers otherwise where nothing tells that tests run."""
    runner: str = ""
    """Who ran them, where one hook serves several."""


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
    known: dict[str, object] = {
        "root": str(stage.root),
        "reports": str(reports),
        "token": stage.token,
        "wanted": stage.purpose.wanted,
        "brief": stage.purpose.brief,
        "blind": stage.purpose.blind,
        "tests": stage.tests if stage.purpose.blind else (),
    }
    known |= extra or {}
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
    equal = tuple(sorted({name for entry in found for name in entry.equal}))
    apart = tuple(dict.fromkeys(words for entry in found for words in entry.apart))
    names = dict.fromkeys(entry.runner or runner for entry in found if entry.tests)
    return Report(tests, len(owners), _canary(found), tuple(names), equal=equal, apart=apart)


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
