"""cargo test and nextest: a script that runs the test binaries, which Cargo takes from a variable."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from segue.proof.report import (
    Canary,
    CaseResult,
    Reason,
    Report,
    TestOutcome,
    add_case,
    join_canaries,
    shorten,
)
from segue.proof.runners.runner import Ended, Project, Runner, Stage, fill_hook, read_texts
from segue.system.beneath import append_below

_OUTCOMES = {"ok": TestOutcome.PASSED, "failed": TestOutcome.FAILED, "ignored": TestOutcome.SKIPPED}
_NOT_BUILT = re.compile(r"could not compile `([^`]+)` \((lib|bin|test)(?: \"([^\"]+)\")?(?: test)?\)")
_MISSING = re.compile(r"error\[E0(?:061|405|412|422|423|425|432|433|560|599|609)\]")
_SYNTAX = re.compile(r"^error: (?:expected|unexpected|this file contains|unknown start)", re.M)
_ROOTS = ("src/lib.rs", "src/main.rs", "src/bin/*.rs")
_TEST_ROOT = re.compile(r"(?:.*/)?tests/[^/]+\.rs")
_PASSED_ON = ("CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN")
_IN_PRODUCT = "unit tests in Rust are part of the files that the agent may change"


class LibtestEvent(msgspec.Struct):
    """One line of Rust's own test harness."""

    type: str
    event: str
    name: str = ""
    stdout: str = ""


_RUNNER = "cargo test"


def _applies(project: Project) -> bool:
    """Return whether there is a crate."""
    return any(path.endswith("Cargo.toml") for path in project.paths)


def _arm(stage: Stage) -> Mapping[str, str]:
    """Copy the script, and append a canary to each file that becomes a test binary."""
    for path in _roots(stage):
        append_below(
            stage.tree,
            path,
            f'\n#[cfg(test)]\n#[test]\nfn {stage.token}() {{\n    panic!("{stage.token}")\n}}\n',
        )
    hook = fill_hook(stage, "cargo_run.sh", f"{stage.token}c.sh", {})
    known = {key: value for key in _PASSED_ON if (value := os.environ.get(key))}
    runners = {f"CARGO_TARGET_{triple}_RUNNER": str(hook) for triple in _triples()}
    target = {"CARGO_TARGET_DIR": str(stage.reports / "target"), "CARGO_TERM_COLOR": "never"}
    return {**known, **runners, **target}


def _read(stage: Stage, ended: Ended) -> Report | None:
    """Return what the binaries reported, and which could not be compiled."""
    tests: dict[str, CaseResult] = {}
    binaries: dict[str, set[Canary]] = {}
    finished: set[str] = set()
    for text in read_texts(stage, f"{stage.token}c"):
        # nextest starts a process for each test, and only one of a binary's has the canary.
        binary = text.split("\n", 2)[1]
        found, canary, is_finished = _cases(text, stage)
        finished |= {binary} if is_finished else set()
        if found or canary is not Canary.ABSENT:
            binaries.setdefault(binary, set()).add(canary)
        for case in found:
            add_case(tests, case)
    for case in _not_built(stage, f"{ended.out}\n{ended.err}"):
        tests[case.id] = case
    if not tests and not finished:
        return None
    canaries = [join_canaries(seen - {Canary.ABSENT}) for seen in binaries.values()]
    weak = any(not case.file for case in tests.values())
    return Report(
        tests,
        len(finished),
        join_canaries(canaries),
        (_RUNNER,) if tests else (),
        (_IN_PRODUCT,) if weak else (),
    )


def _triples() -> Iterator[str]:
    """Yield how Cargo may name this machine in variables."""
    machine = {"arm64": "aarch64", "amd64": "x86_64"}.get(platform.machine().lower(), platform.machine())
    systems = ("APPLE_DARWIN",) if sys.platform == "darwin" else ("UNKNOWN_LINUX_GNU", "UNKNOWN_LINUX_MUSL")
    yield from (f"{machine.upper()}_{system}" for system in systems)


def _roots(stage: Stage) -> list[Path]:
    """Return the files that become test binaries."""
    found: dict[Path, None] = {}
    for manifest in stage.tree.rglob("Cargo.toml"):
        for glob in _ROOTS:
            found |= dict.fromkeys(manifest.parent.glob(glob))
    found |= {stage.tree / path: None for path in stage.tests if _TEST_ROOT.fullmatch(path)}
    return [path for path in found if path.is_file() and not path.is_symlink()]


def _cases(text: str, stage: Stage) -> tuple[list[CaseResult], Canary, bool]:
    """Return the tests of one binary, its canary, and whether it finished."""
    folder, binary, source, *lines = text.splitlines()
    crate, stem = stage.relative(folder), Path(binary).name.rpartition("-")[0]
    known = (path for path in _files_of(crate, stem) if path in stage.tests)
    # A library and its tests may have the same name: the compiler says which one this is.
    file = next((path for path in known if source.endswith(path[-len(source) :])), "")
    found: list[CaseResult] = []
    canary, finished = Canary.ABSENT, False
    for event in _events(lines):
        finished = finished or (event.type == "suite" and event.event in ("ok", "failed"))
        outcome = _OUTCOMES.get(event.event)
        if event.type != "test" or outcome is None:
            continue
        if event.name == stage.token:
            failed = outcome is TestOutcome.FAILED and stage.token in event.stdout
            canary = Canary.FAILED if failed else Canary.SILENT
            continue
        owner = file or "/".join(filter(None, (crate, stem)))
        reason = _explain(event.stdout) if outcome is TestOutcome.FAILED else None
        found.append(CaseResult(f"{owner}::{event.name}", outcome, file, reason, shorten(event.stdout)))
    return found, canary, finished


def _events(lines: Iterable[str]) -> Iterator[LibtestEvent]:
    for line in lines:
        at = line.find('{ "type": "')
        with contextlib.suppress(msgspec.DecodeError, ValueError):
            if at >= 0:
                yield msgspec.json.decode(line[at:], type=LibtestEvent)


def _explain(message: str) -> Reason:
    if "not implemented" in message or "not yet implemented" in message:
        return Reason.UNFINISHED
    return Reason.ASSERTION if re.search(r"assertion|panicked at tests/", message) else Reason.RAISED


def _not_built(stage: Stage, output: str) -> Iterator[CaseResult]:
    """Yield an entry for each file of tests that could not be compiled."""
    reason = Reason.MISSING if _MISSING.search(output) else Reason.OTHER
    reason = Reason.SYNTAX if _SYNTAX.search(output) else reason
    for crate, kind, name in _NOT_BUILT.findall(output):
        ends = (f"tests/{name}.rs", f"tests/{name}/main.rs") if kind == "test" else ()
        file = next((path for path in stage.tests if path.endswith(ends)), "") if ends else ""
        ident = file or "/".join(filter(None, (crate, kind, name)))
        yield CaseResult(ident, TestOutcome.FAILED, file, reason, shorten(output[-2000:]), whole_file=True)


def _files_of(crate: str, stem: str) -> Iterator[str]:
    prefix = f"{crate}/" if crate else ""
    for name in (stem, stem.replace("_", "-")):
        yield from (f"{prefix}tests/{name}.rs", f"{prefix}tests/{name}/main.rs")


CARGO_TEST = Runner(_RUNNER, _applies, _arm, _read)
"""Asks the test harness for JSON when it runs, so that nothing is compiled differently."""
